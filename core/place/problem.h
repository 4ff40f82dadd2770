// SPDX-License-Identifier: Apache-2.0
// Problem: a request as numbers: groups, seconds, bytes and links, ready to be simulated.
//
// Nodes are known by their positions. A value is an output of a node, a node's control output (no bytes,
// order alone), or a fed edge (no producer, there from the start). Back edges of loops are left out; what is in a
// loop counts kGuessedTurns times for each loop around it.
#ifndef TENON_CORE_PLACE_PROBLEM_H_
#define TENON_CORE_PLACE_PROBLEM_H_

#include <cstdint>
#include <span>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/shape_inference.h"
#include "core/place/groups.h"

namespace tenon::place {

inline constexpr double kGuessedTurns = 10;

struct Value {
  Position producer;      // none: fed
  graph::Edge edge;       // index -1: control
  DeviceId home;          // of a fed one: the device whose memory has it; none: it is everywhere
  double bytes = 0;
  double repeats = 1;     // transfers in a step
  ValueId storage;        // the value whose memory it is: itself, what it was forwarded from
  int32_t readers = 0;    // inputs and fetches, those of values with this storage too
};

struct Problem {
  const Request* request = nullptr;
  const Devices* devices = nullptr;
  DeviceSets sets{0};
  Groups groups;
  DeviceId host;  // the device whose memory is the host's; none: then host values are everywhere
  IdVector<DeviceId, ClassId> device_class;
  size_t class_count = 0;
  std::vector<Link> links;  // by LinkIndex
  std::vector<size_t> ways;  // by LinkIndex: what one transfer takes at a time, less than there are links

  std::vector<double> seconds;  // by ClassIndex of the position, all turns of its loops
  std::vector<bool> known;      // likewise: measured, or said by the kernel; else guessed
  IdVector<Position, uint8_t> by_engine;      // takes no time and no queue
  IdVector<Position, double> resident_bytes;  // state and constants, there for the whole step
  IdVector<ValueId, Value> values;
  IdVector<Position, ValueId> first_value;    // outputs, then the control value
  IdVector<Position, InputId> first_input;    // one more than there are positions
  IdVector<InputId, ValueId> inputs;
  // Whether a kernel takes or gives host memory, by ClassIndex of the input or value; empty: never.
  std::vector<bool> host_inputs, host_outputs;
  std::vector<ValueId> fetched;        // in the order of their producers, fed ones first
  std::vector<DeviceId> fetched_to;    // the devices whose memory takes them; none: there is none
  int64_t guessed_nodes = 0;           // whose shapes had to be guessed

  size_t size() const { return first_value.size(); }
  size_t device_count() const { return devices->size(); }
  size_t WayOf(DeviceId from, DeviceId to) const { return ways[LinkIndex(from, to)]; }
  IdRange<Position> positions() const { return first_value.ids(); }
  Position last() const { return first_value.last_id(); }
  const graph::Node& node(Position position) const { return request->graph->node(request->order[position]); }
  std::span<const ValueId> inputs_of(Position position) const {
    return inputs.Between(first_input[position], first_input[position.next()]);
  }
  // What the node itself gives, without its control value.
  IdRange<ValueId> outputs_of(Position position) const {
    ValueId end = first_value[position];
    while (values[end].edge.index >= 0) ++end;
    return {first_value[position], end};
  }
  const std::vector<DeviceId>& devices_of(GroupId group) const { return sets.devices(groups.sets[group]); }
  bool IsKnown(Position position, DeviceId device) const { return known[ClassIndex(position, device_class[device])]; }
  double SecondsOf(Position position, DeviceId device) const {
    return seconds[ClassIndex(position, device_class[device])];
  }
  bool is_host(DeviceId device) const { return (*devices)[device].host_memory; }
  // Where a value lies when its producer runs on `device`, and where an input is wanted.
  DeviceId LiesOn(ValueId value, DeviceId device) const { return OnHost(host_outputs, value, device) ? host : device; }
  DeviceId WantedOn(InputId input, DeviceId device) const { return OnHost(host_inputs, input, device) ? host : device; }
  size_t LinkIndex(DeviceId from, DeviceId to) const { return from.index() * device_count() + to.index(); }
  const Link& link(DeviceId from, DeviceId to) const { return links[LinkIndex(from, to)]; }
  template <typename Key>
  size_t ClassIndex(Key of, ClassId on) const { return of.index() * class_count + on.index(); }

 private:
  template <typename Key>
  bool OnHost(const std::vector<bool>& flags, Key of, DeviceId device) const {
    return !flags.empty() && host && flags[ClassIndex(of, device_class[device])];
  }
};

// Costs come from Request::costs where it has them, else from the ops. Shapes that cannot be inferred are guessed.
Result<Problem> MakeProblem(const Request& request, const Positions& position, Groups groups, DeviceSets sets);

}  // namespace tenon::place

#endif  // TENON_CORE_PLACE_PROBLEM_H_
