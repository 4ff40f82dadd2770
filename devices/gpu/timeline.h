// SPDX-License-Identifier: Apache-2.0
// Timeline: what a timeline semaphore is here. Its value is a word that streams write and wait for, which the host sees
// (record.h), so that queues of one driver wait for each other on the GPU and the host sees a point without a call of
// the driver.
//
// A stream cannot leave out what it was given, so a failure does not stop the GPU: it is known to the host. The value
// then becomes kReleased, which lets go whatever waits, and points above failed_at() have the failure: what a kernel
// reported (FaultRecord), what the host said, or the failure of a point that the timeline's work waited for. Not
// thread-safe but for word(): guarded by System::mutex. Held by all who may still ask it.
#ifndef TENON_DEVICES_GPU_TIMELINE_H_
#define TENON_DEVICES_GPU_TIMELINE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "record.h"
#include "tenon/sdk/device/device.h"

namespace tenon::gpu {

class Device;

// Streams compare words as signed differences (cyclically), so that UINT64_MAX would be before every point.
inline constexpr uint64_t kReleased = INT64_MAX;

class Timeline : public sdk::Handled<Timeline, tenon_semaphore> {
 public:
  // record: of the device, given back when the last holder has gone.
  Timeline(std::shared_ptr<Device> device, const Record& record, uint64_t initial);
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  enum class State { kOpen, kReached, kFailed };
  State At(uint64_t value);
  // The same without asking what the timeline depends on: a failure that only they know is not seen yet.
  State Known(uint64_t value);
  // Of a failed point; OK while there is none.
  const Outcome& failure() const { return failure_; }
  uint64_t value();

  void Signal(uint64_t value);  // the host does
  void Fail(const Outcome& why);
  // Work of the timeline that was submitted now waits for a point of another: its failure is this one's, from the next
  // point on. by_known: asked for with Known(), where timelines depend on each other at the same point.
  void DependOn(std::shared_ptr<Timeline> other, uint64_t value, bool by_known = false);
  void NoteSubmitted(uint64_t signal) { submitted_ = signal; }
  // What work that is submitted now may signal.
  uint64_t next_point() const { return submitted_ + 1; }
  // A guess without a lock: false may be late news.
  bool has_failed() const { return has_failed_.load(std::memory_order_relaxed); }
  // Lets waiting streams go again, where a late signal of a stream has put the word back.
  void KeepReleased();
  // Whether no stream will write the word any more: all the signals that were submitted have come.
  bool word_stays() const { return word_stays_ && waited_stays_; }
  void DropDependencies() { dependencies_.clear(); }

  Device& device() const { return *device_; }
  const Record& record() const { return record_; }
  // Records serve one timeline after the other; numbers are never used again. 0 is none's.
  uint64_t number() const { return number_; }
  // How long the last wait for a point of it took, for the next: a timeline is of one program's work on one queue, step
  // after step.
  std::chrono::nanoseconds usual_wait() const {
    return std::chrono::nanoseconds(usual_wait_.load(std::memory_order_relaxed));
  }
  void set_usual_wait(std::chrono::nanoseconds took) { usual_wait_.store(took.count(), std::memory_order_relaxed); }
  uint64_t word() const { return record_.word(); }

 private:
  struct Dependency {
    std::shared_ptr<Timeline> timeline;
    uint64_t value;
    uint64_t from;  // this timeline's points from here on need it
    bool by_known = false;
    bool settled = false;
  };
  void NoteFault();
  void Settle(uint64_t value);
  void FailFrom(uint64_t point, const Outcome& why);

  const std::shared_ptr<Device> device_;
  const Record record_;
  const uint64_t number_;
  uint64_t submitted_;  // the last value that a queue was told to signal
  Outcome failure_;
  std::atomic<bool> has_failed_{false};
  bool word_stays_ = false, waited_stays_ = false;  // no stream will write it any more
  uint64_t failed_at_ = kReleased;  // the last good point
  std::vector<Dependency> dependencies_;
  std::atomic<int64_t> usual_wait_{0};
  int settling_ = 0;  // calls under way: while one is, nothing is taken out
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_TIMELINE_H_
