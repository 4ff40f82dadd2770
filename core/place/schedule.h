// SPDX-License-Identifier: Apache-2.0
// Schedule: a step as it is simulated, node by node.
//
// The rule. Nodes are taken in one given order. Each device has one queue: a node starts when its queue is free and its
// inputs are there. A value goes to a device once, however many nodes read it there; between two devices one transfer
// takes the link at a time (its bytes, and of the latency what the link says), in the order in which readers ask. Fed
// values are there at the start, fetched ones go where they are wanted, as a rule the host, as soon as they are there.
// Memory: state and constants stay; a value, and its copies, stay until the last reader was taken.
#ifndef TENON_CORE_PLACE_SCHEDULE_H_
#define TENON_CORE_PLACE_SCHEDULE_H_

#include <vector>

#include "core/place/placement.h"
#include "core/place/problem.h"

namespace tenon::place {

class LookAhead;

class Schedule {
 public:
  explicit Schedule(const Problem* problem);
  void Reset();
  // From now on what happens is written down in `out`; nullptr: no more.
  void Record(Placement* out) { record_ = out; }

  // State and constants of a group on its device.
  void AddResident(GroupId group, DeviceId device);
  // When the node would finish on a device. Inputs that were not taken yet count as there.
  double FinishOn(Position position, DeviceId device);
  // Whether the node's values, with `more` bytes, fit in the device's memory now.
  bool Fits(Position position, DeviceId device, double more) const;
  // Runs the node there, after those taken so far. Its finish.
  double Take(Position position, DeviceId device);
  // The step's seconds.
  double Finish();

  bool taken(Position position) const { return bool{device_[position]}; }
  DeviceId device(Position position) const { return device_[position]; }
  const IdVector<DeviceId, double>& used_bytes() const { return used_; }
  const IdVector<DeviceId, double>& peak_bytes() const { return peak_; }
  // Whether a device's memory did not suffice at some moment.
  bool over_memory() const { return over_memory_; }

 private:
  struct Copy;
  struct Holding;
  using CopyId = Id<Copy>;
  using HoldingId = Id<Holding>;
  struct Copy {
    DeviceId device;
    double at;
    CopyId next;
  };
  struct Holding {
    DeviceId device;
    double bytes;
    HoldingId next;
  };
  // Where the value is from the start on, and since when.
  DeviceId Home(ValueId value) const;
  double ReadyAt(const Value& value) const;
  const Copy* FindCopy(ValueId value, DeviceId device) const;
  double Bring(ValueId value, DeviceId from, DeviceId to);
  void BringFetched(size_t i);
  void Hold(ValueId value, DeviceId device);
  void Use(DeviceId device, double bytes);
  void Drop(ValueId value);
  double LimitOf(DeviceId device) const { return (*problem_.devices)[device].memory_bytes; }

  const Problem& problem_;
  size_t devices_;
  IdVector<DeviceId, double> queue_free_, used_, peak_;
  std::vector<double> link_free_, scratch_link_;  // by Problem::WayOf
  IdVector<Position, double> finish_;
  IdVector<Position, DeviceId> device_;
  IdVector<ValueId, CopyId> first_copy_;
  IdVector<ValueId, HoldingId> first_holding_;
  IdVector<ValueId, int32_t> readers_left_;
  IdVector<CopyId, Copy> copies_;
  IdVector<HoldingId, Holding> holdings_;
  double end_ = 0;
  bool over_memory_ = false;
  Placement* record_ = nullptr;
};

// The whole step with each group on its device. Infinite when it does not fit in memory; stops early where it will be
// beyond `bound`, which it sees sooner with a look ahead.
double Simulate(const Problem& problem, const Sequence& sequence, const GroupDevices& device_of_group,
                Schedule* schedule, double bound, const LookAhead* look_ahead = nullptr);

// Positions by upward rank (the longest way to the end, with mean times over the devices of each node, transfers
// counted as often as devices differ), long ways first: a topological order.
Sequence RankOrder(const Problem& problem);

}  // namespace tenon::place

#endif  // TENON_CORE_PLACE_SCHEDULE_H_
