// SPDX-License-Identifier: Apache-2.0
// Timeline: what a timeline semaphore is here. It counts up until it fails; then it stays where it is.
//
// A point is reached when the value is at or above it; of a failed timeline the higher points have the failure, as all
// points have of a device that is lost. Points are signalled in order, by one queue or by the host. A timeline knows
// the moment of simulated time at which each of its latest points was reached, and by whom. Not thread-safe: guarded by
// System::mutex, like everything that hangs on it. Who signals or fails it calls the notices that it gives back when
// the mutex is free again; then the timeline may be gone.
#ifndef TENON_DEVICES_TPU_SIM_TIMELINE_H_
#define TENON_DEVICES_TPU_SIM_TIMELINE_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "clock.h"
#include "outcome.h"
#include "tenon/sdk/device/device.h"

namespace tenon::tpu_sim {

class Device;

// A point as seen now.
struct PointState {
  enum Kind { kOpen, kReached, kFailed } kind = kOpen;
  MomentPointer reached;  // when; nullptr: at the beginning
  const Outcome* failure = nullptr;
};

// A callback that is due.
struct Notice {
  sdk::HostCall call;
  Outcome outcome;
};
using Notices = std::vector<Notice>;
// Calls and clears them. System::mutex must be free.
void CallAll(Notices& notices);

class Timeline : public sdk::Handled<Timeline, tenon_semaphore> {
 public:
  Timeline(std::shared_ptr<Device> owner, uint64_t initial) : owner_(std::move(owner)), value_(initial) {}

  Device& owner() const { return *owner_; }
  PointState At(uint64_t value) const;
  uint64_t value() const { return value_; }
  // How it failed, or that its device is lost; OK while it has not.
  const Outcome& failure() const;

  // A value that is not above the current one changes nothing; neither does anything after a failure.
  void Signal(uint64_t value, MomentPointer moment, Notices* out);
  void Fail(const Outcome& why, Notices* out);
  void Notify(uint64_t value, sdk::HostCall call, Notices* out);
  // Takes out the callbacks that are due, and wakes whoever waits.
  void Wake(Notices* out);

  std::condition_variable changed;                  // host threads
  std::vector<std::condition_variable*> listeners;  // of queues that wait

 private:
  struct Mark {
    uint64_t value;
    MomentPointer moment;
  };
  struct Pending {
    uint64_t value;
    sdk::HostCall call;
  };
  const std::shared_ptr<Device> owner_;
  uint64_t value_;
  Outcome failure_;
  std::vector<Mark> marks_;  // of the latest points: a ring that begins at marks_begin_
  size_t marks_begin_ = 0;
  std::vector<Pending> pending_;
};

struct Point {
  Timeline* timeline = nullptr;
  uint64_t value = 0;
};

}  // namespace tenon::tpu_sim

#endif  // TENON_DEVICES_TPU_SIM_TIMELINE_H_
