// SPDX-License-Identifier: Apache-2.0
// Timeline: what a timeline semaphore is here. It counts up; a point of it is open, reached or poisoned.
//
// A piece of work that fails poisons the points that it would have signalled: those above the value so far, up to its
// own. The value passes them, so that later points are not held up. Points are to be signalled in order, by one queue or
// by work that waits for the work before: who signals a higher point first has reached (or poisoned) the lower ones too.
// Every point knows the simulated cycle at which it was reached. Not thread-safe: guarded by System::mutex, like
// everything that hangs on it.
#ifndef TENON_DEVICES_TPU_SIM_TIMELINE_H_
#define TENON_DEVICES_TPU_SIM_TIMELINE_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "outcome.h"

namespace tenon::tpu_sim {

class Device;

// A point as seen now.
struct PointState {
  enum Kind { kOpen, kReached, kPoisoned } kind = kOpen;
  int64_t cycle = 0;            // of a reached point
  const std::string* by = nullptr;  // who reached it
  Outcome outcome;              // of a poisoned one
};

class Timeline {
 public:
  Timeline(std::shared_ptr<const Device> owner, uint64_t initial) : owner_(std::move(owner)), value_(initial) {}

  PointState At(uint64_t value) const;
  uint64_t value() const { return value_; }
  const Outcome& OwnerLost() const;
  // Both wake whoever waits. A value that is not above the current one changes nothing.
  void Signal(uint64_t value, int64_t cycle, const std::string& by);
  void Poison(uint64_t value, const Outcome& outcome);
  void Wake();

  // Submitted work that will signal it, and whether the host still can.
  int64_t promised = 0;
  bool abandoned = false;
  // Nobody will ever move it on.
  bool hopeless() const { return abandoned && promised == 0; }

  std::condition_variable changed;                   // host threads
  std::vector<std::condition_variable*> listeners;  // of queues that wait

 private:
  struct Mark {
    uint64_t value;
    int64_t cycle;
    std::string by;
  };
  struct Interval {
    uint64_t first, last;
    Outcome outcome;
  };
  const std::shared_ptr<const Device> owner_;
  uint64_t value_;
  std::deque<Mark> marks_;  // of the latest points
  std::vector<Interval> poisoned_;
};

struct Point {
  std::shared_ptr<Timeline> timeline;
  uint64_t value = 0;
};

}  // namespace tenon::tpu_sim

#endif  // TENON_DEVICES_TPU_SIM_TIMELINE_H_
