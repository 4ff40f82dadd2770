// SPDX-License-Identifier: Apache-2.0
// Placement: where each node goes, why, and what the simulation says of the step.
#ifndef TENON_CORE_PLACE_PLACEMENT_H_
#define TENON_CORE_PLACE_PLACEMENT_H_

#include <string>
#include <vector>

#include "core/graph/edge.h"
#include "core/place/ids.h"

namespace tenon::place {

// Why a node is where it is.
enum class Reason : uint8_t {
  kOnlyDevice,      // there is one device
  kOnlyKernel,      // one device has a kernel
  kDeviceName,      // its device name, or the placement file, leaves one
  kTogether,        // with the node `with`
  kState,           // where all clients of the cluster put state that names no device
  kEarliestFinish,  // the simulation found it best
  kPlacer,          // an external placer said so
};

struct Choice {
  Reason reason = Reason::kOnlyDevice;
  graph::NodeId with;  // for kTogether
};

// What could have been: the step's part up to this node would end at `seconds` there.
struct Alternative {
  DeviceId device;
  double seconds = 0;
};

struct NodeSpan {
  graph::NodeId node;
  DeviceId device;
  double start = 0, finish = 0;  // seconds from the step's start
  bool known = true;             // what it takes was measured, or its kernel says it; else it is a guess
};

struct TransferSpan {
  graph::Edge value;
  DeviceId from, to;
  double bytes = 0;
  double start = 0, finish = 0;
};

struct Placement {
  graph::NodeMap<DeviceId> device_of_node;  // none: not in the order
  graph::NodeMap<Choice> choices;
  std::vector<std::string> notes;   // preferences that were dropped, costs that were guessed
  size_t dropped = 0;               // how many of the notes, the first ones, are of dropped preferences
  // What the simulation says; `sequence` is the order in which it starts nodes, topological again. One device alone is
  // not simulated unless the request asks to explain: then these are empty and 0.
  std::vector<graph::NodeId> sequence;
  double seconds = 0;
  IdVector<DeviceId, double> peak_bytes;
  int64_t transfers = 0;
  double transfer_bytes = 0;
  // When Request::explain: alternatives, the time line by start; of the latter also when Request::spans.
  graph::NodeMap<std::vector<Alternative>> alternatives;
  std::vector<NodeSpan> node_spans;
  std::vector<TransferSpan> transfer_spans;
};

}  // namespace tenon::place

#endif  // TENON_CORE_PLACE_PLACEMENT_H_
