// SPDX-License-Identifier: Apache-2.0
// Clock: simulated time of a system's devices. It follows from what was done, and not from when threads did it.
//
// Threads do work as soon as they may, and note here what they did: what it waited for, the unit it takes, and for how
// long. When it was is settled later, for all that was noted together, in the order of simulated time: work arrives
// when the work before it on its queue and the points that it waits for allow, and of the work that wants a unit what
// arrives first gets it (of equals, the queue with the lower number). So equal steps take equal times, whichever thread
// was first. It is settled when somebody reads the profile, and when much has come together.
//
// The host takes no simulated time, but what it submits does not begin before what it has waited for.
//
// Not thread-safe: guarded by System::mutex, but for now().
#ifndef TENON_DEVICES_TPU_SIM_CLOCK_H_
#define TENON_DEVICES_TPU_SIM_CLOCK_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "model/cycle_model.h"

namespace tenon::tpu_sim {

// What work occupies. kNone takes no unit and is no piece of work for the faults' counts (barriers, frees, host calls).
enum class Unit : int32_t { kNone, kCompute, kMemory, kFromHost, kToHost, kInterconnect };
inline constexpr int kUnits = 6;
const char* UnitName(Unit unit);

// Who or what something waited for.
struct Origin {
  enum Kind : int32_t { kNothing, kHost, kQueue, kUnit } kind = kNothing;
  int32_t device = 0;
  int32_t number = 0;  // of the queue, or the unit
};
std::string ToText(const Origin& origin);

// What the profile keeps of finished work.
struct Span {
  uint64_t number = 0, queue = 0, begin_ns = 0, end_ns = 0;
  int64_t begin = 0, end = 0, waited = 0;
  Cycles cycles;
  Origin waited_for;
  const char* kind = "";
  uint32_t code = 0;
  char name[64] = {};
};

struct QueueTime;

// When a point was reached.
struct Moment {
  int64_t cycle = -1;  // negative: not settled
  Origin by;
  std::vector<QueueTime*> waiting;  // while it is being settled
};
using MomentPointer = std::shared_ptr<Moment>;

// The units of a device, and what they did.
class DeviceTime {
 public:
  DeviceTime(int64_t index, int64_t cores, int64_t most_spans);
  int64_t index() const { return index_; }
  // When the unit is free, for work that could begin `at`.
  int64_t& NextFree(Unit unit, int64_t at);
  void Log(const Span& span);
  // The kept span of this number, which is below next_span() and not below oldest_span().
  const Span& LoggedSpan(uint64_t number) const { return log_[static_cast<size_t>(number % log_.size())]; }
  uint64_t next_span() const { return next_span_; }
  uint64_t oldest_span() const { return next_span_ - log_.size(); }

 private:
  const int64_t index_;
  const uint64_t most_spans_;
  std::array<std::vector<int64_t>, kUnits> unit_free_;
  std::vector<Span> log_;  // a ring, once it is full
  uint64_t next_span_ = 0;
};

// What was done, in a queue's order.
struct Deed {
  Unit unit = Unit::kNone;
  bool logged = false;
  Span span;                          // without the times by this clock
  std::vector<MomentPointer> waits;
  MomentPointer done;                 // nullptr: nobody asks
};

struct QueueTime {
  std::shared_ptr<DeviceTime> device;  // nullptr: the host, which waits and does nothing
  int64_t number = 0;
  int64_t clock = 0;       // when the queue could go on
  int64_t idle_since = 0;  // when its last work that took a unit was done
  Origin waited_for;       // what has kept it since
  std::deque<Deed> open;   // that is not settled
};

class Clock {
 public:
  Clock();
  std::shared_ptr<QueueTime> NewQueue(std::shared_ptr<DeviceTime> device, int64_t number);
  void Note(QueueTime& queue, Deed deed);
  // The host has seen that a point was reached; nullptr: at the beginning.
  void Observe(const MomentPointer& moment);
  // How often the host has seen something new; any thread.
  uint64_t now() const { return now_.load(std::memory_order_acquire); }
  // When the host had seen as much.
  MomentPointer HostAt(uint64_t now) const;
  void Settle();

 private:
  struct Arrival;
  using Arrivals = std::vector<Arrival>;
  static void Examine(QueueTime& queue, Arrivals* arrivals);
  static void Do(QueueTime& queue, Arrivals* arrivals);

  std::vector<std::shared_ptr<QueueTime>> queues_;
  QueueTime host_;
  std::deque<MomentPointer> seen_;  // the latest, of which the last is that of now()
  MomentPointer last_observed_;
  std::atomic<uint64_t> now_{0};
  size_t open_ = 0;
};

}  // namespace tenon::tpu_sim

#endif  // TENON_DEVICES_TPU_SIM_CLOCK_H_
