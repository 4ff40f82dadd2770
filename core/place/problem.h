// SPDX-License-Identifier: Apache-2.0
// Problem: a request as numbers: groups, seconds, bytes and links, ready to be simulated.
//
// Nodes are known by their position in Request::order. A value is an output of a node, a node's control output (no bytes,
// order alone), or a fed edge (no producer, there from the start). Back edges of loops are left out; what is in a
// loop counts kGuessedTurns times for each loop around it.
#ifndef TENON_CORE_PLACE_PROBLEM_H_
#define TENON_CORE_PLACE_PROBLEM_H_

#include <cstdint>
#include <span>
#include <vector>

#include "core/graph/shape_inference.h"
#include "core/place/groups.h"

namespace tenon::place {

inline constexpr double kGuessedTurns = 10;

struct Value {
  int32_t producer = -1;  // position; -1: fed
  graph::Edge edge;       // index -1: control
  int home = -1;          // of a fed one: the device whose memory has it; -1: there is none, it is everywhere
  double bytes = 0;
  double repeats = 1;     // transfers in a step
  int32_t storage = -1;   // the value whose memory it is: itself, what it was forwarded from; -1: none
  int32_t readers = 0;    // inputs and fetches, those of values with this storage too
};

struct Problem {
  const Request* request = nullptr;
  const std::vector<DeviceInfo>* devices = nullptr;
  DeviceSets sets{0};
  Groups groups;
  int host = -1;                  // the device whose memory is the host's; -1: none, then host values are everywhere
  std::vector<int> device_class;  // devices of one class are equally fast
  size_t class_count = 0;
  std::vector<Link> links;        // [from * devices + to]

  std::vector<double> seconds;         // [position * class_count + class], all turns of its loops
  std::vector<uint8_t> by_engine;      // by position: takes no time and no queue
  std::vector<double> resident_bytes;  // by position: state and constants, there for the whole step
  std::vector<Value> values;
  std::vector<int32_t> first_value;    // by position: outputs, then the control value
  std::vector<int32_t> input_offsets;  // inputs of position p: inputs[input_offsets[p]] up to inputs[input_offsets[p + 1]]
  std::vector<int32_t> inputs;         // values
  // Whether a kernel takes or gives host memory, by (input or value) * class_count + class; empty: never.
  std::vector<bool> host_inputs, host_outputs;
  std::vector<int32_t> fetched;        // values
  std::vector<int> fetched_to;         // the devices whose memory takes them; -1: there is none
  int64_t guessed_nodes = 0;           // whose shapes had to be guessed

  size_t size() const { return first_value.size(); }
  size_t device_count() const { return devices->size(); }
  const graph::Node& node(size_t position) const { return request->graph->node(request->order[position]); }
  std::span<const int32_t> inputs_of(size_t position) const {
    return std::span(inputs).subspan(static_cast<size_t>(input_offsets[position]),
                                     static_cast<size_t>(input_offsets[position + 1] - input_offsets[position]));
  }
  double SecondsOf(size_t position, int device) const {
    return seconds[position * class_count + static_cast<size_t>(device_class[device])];
  }
  bool is_host(int device) const { return (*devices)[device].host_memory; }
  // Where a value lies when its producer runs on `device`, and where input `slot` of `inputs` is wanted.
  int LiesOn(int32_t value, int device) const { return OnHost(host_outputs, static_cast<size_t>(value), device) ? host : device; }
  int WantedOn(size_t slot, int device) const { return OnHost(host_inputs, slot, device) ? host : device; }
  const Link& link(int from, int to) const { return links[static_cast<size_t>(from) * device_count() + static_cast<size_t>(to)]; }

 private:
  bool OnHost(const std::vector<bool>& flags, size_t index, int device) const {
    return !flags.empty() && host >= 0 && flags[index * class_count + static_cast<size_t>(device_class[device])];
  }
};

// Costs come from Request::costs where it has them, else from the ops. Shapes that cannot be inferred are guessed.
Result<Problem> MakeProblem(const Request& request, const graph::NodeMap<int32_t>& position, Groups groups, DeviceSets sets);

}  // namespace tenon::place

#endif  // TENON_CORE_PLACE_PROBLEM_H_
