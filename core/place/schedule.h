// SPDX-License-Identifier: Apache-2.0
// Schedule: a step as it is simulated, node by node.
//
// The rule. Nodes are taken in one given order. Each device has one queue: a node starts when its queue is free and its
// inputs are there. A value goes to a device once, however many nodes read it there; between two devices one transfer
// takes the link at a time (its bytes; the latency is not exclusive), in the order in which readers ask. Fed values are
// there at the start, fetched ones go where they are wanted: as a rule the host. Memory: state and constants stay; a value, and its copies, stay until the
// last reader was taken.
#ifndef TENON_CORE_PLACE_SCHEDULE_H_
#define TENON_CORE_PLACE_SCHEDULE_H_

#include <vector>

#include "core/place/placement.h"
#include "core/place/problem.h"

namespace tenon::place {

class Schedule {
 public:
  explicit Schedule(const Problem* problem);
  void Reset();
  // From now on what happens is written down in `out`; nullptr: no more.
  void Record(Placement* out) { record_ = out; }

  // State and constants of a group on its device.
  void AddResident(int32_t group, int device);
  // When the node would finish on a device. Inputs that were not taken yet count as there.
  double FinishOn(size_t position, int device);
  // Whether the node's values, with `more` bytes, fit in the device's memory now.
  bool Fits(size_t position, int device, double more) const;
  // Runs the node there, after those taken so far. Its finish.
  double Take(size_t position, int device);
  // Brings fetched values where they are wanted. The step's seconds.
  double Finish();

  bool taken(size_t position) const { return device_[position] >= 0; }
  int device(size_t position) const { return device_[position]; }
  const std::vector<double>& used_bytes() const { return used_; }
  const std::vector<double>& peak_bytes() const { return peak_; }
  // Whether a device's memory did not suffice at some moment.
  bool over_memory() const { return over_memory_; }

 private:
  struct Copy {
    int device;
    double at;
    int32_t next;
  };
  struct Holding {
    int device;
    double bytes;
    int32_t next;
  };
  // Where the value is from the start on, and since when.
  int Home(const Value& value, int32_t index) const;
  double ReadyAt(const Value& value) const;
  const Copy* FindCopy(int32_t value, int device) const;
  double Bring(int32_t value, int from, int to);
  void Hold(int32_t value, int device);
  void Drop(int32_t value);
  double LimitOf(int device) const { return (*problem_.devices)[device].memory_bytes; }

  const Problem& problem_;
  size_t devices_;
  std::vector<double> queue_free_, link_free_, scratch_link_, used_, peak_, finish_;
  std::vector<int> device_;
  std::vector<int32_t> first_copy_, first_holding_, readers_left_;
  std::vector<Copy> copies_;
  std::vector<Holding> holdings_;
  double end_ = 0;
  bool over_memory_ = false;
  Placement* record_ = nullptr;
};

// The whole step with each group on its device. Infinite when it does not fit in memory; stops early beyond `bound`.
double Simulate(const Problem& problem, const std::vector<int32_t>& sequence, const std::vector<int>& device_of_group, Schedule* schedule,
                double bound);

// Positions by upward rank (the longest way to the end, with mean times over the devices of each node, transfers counted
// as often as devices differ), long ways first: a topological order.
std::vector<int32_t> RankOrder(const Problem& problem);

}  // namespace tenon::place

#endif  // TENON_CORE_PLACE_SCHEDULE_H_
