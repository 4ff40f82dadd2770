// SPDX-License-Identifier: Apache-2.0
// Placement: which device each node of a graph runs on.
//
// What must hold is found first: kernels, device names (partial ones too), nodes that stay together (classes "loc:@x",
// references and handles with the node that made them, the parts of a loop variable). What is left free is decided by
// simulating the step with a cost model (simulate.h, greedy.h), or by a placer that the caller brings.
//
// Knows nothing of kernels, plugins or executors: Request says all in plain values and functions. Pure: the same request
// gives the same answer. Functions of a Request are called on the caller's thread, before Place returns.
#ifndef TENON_CORE_PLACE_PLACE_H_
#define TENON_CORE_PLACE_PLACE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/graph/graph.h"

namespace tenon::place {

class CostModel;      // cost_model.h
class PlacementFile;  // placement_file.h
struct Problem;       // problem.h

struct DeviceInfo {
  std::string name;  // whole: "/job:localhost/replica:0/task:0/device:TYPE:0"
  std::string type;  // devices of one type run the same nodes
  int32_t priority = 0;          // among those that finish at the same time
  double flops = 0;              // per second; 0: unknown
  double bytes_per_second = 0;   // of its memory; 0: unknown
  double launch_seconds = 0;     // of a kernel without work
  double memory_bytes = 0;       // 0: no limit
  bool host_memory = false;      // its values are host memory
};

// A transfer takes latency_seconds + bytes / bytes_per_second (0: bytes cost nothing).
struct Link {
  double latency_seconds = 0;
  double bytes_per_second = 0;
};

struct Request {
  const graph::Graph* graph = nullptr;
  std::vector<int32_t> order;  // the nodes to place, topological but for the back edges of loops
  std::vector<graph::Edge> feeds, fetches;
  std::vector<int32_t> feed_devices, fetch_devices;  // whose memory each lies in; -1, and all when empty: the host's
  const std::vector<DeviceInfo>* devices = nullptr;

  // Whether a device has a kernel for the node; asked once for each device type. True everywhere for nodes that the
  // engine runs itself. Empty function: true.
  std::function<bool(const graph::Node&, int device)> can_run;
  // For the error: why no device can run it. May be empty.
  std::function<std::string(const graph::Node&)> why_none;
  // Whether the kernel on a device takes input i from host memory, or gives output i in host memory. May be empty: no.
  std::function<bool(const graph::Node&, int device, int input)> host_input;
  std::function<bool(const graph::Node&, int device, int output)> host_output;
  // Whether the kernel's output is its input's memory: it costs nothing. May be empty: no.
  std::function<bool(const graph::Node&, int device)> is_view;
  // Between different devices. May be empty: transfers cost nothing.
  std::function<Link(int from, int to)> link;

  std::string default_device;   // for nodes that name none; may be partial
  bool soft_placement = false;  // a device name that cannot hold is dropped with a note, not an error
  const PlacementFile* file = nullptr;  // goes before the nodes' own device names
  // Whole device names of nodes whose state lives there already, by node name; nothing moves them.
  const std::unordered_map<std::string, std::string>* homes = nullptr;
  const CostModel* costs = nullptr;     // nullptr: static costs
  // Chooses a device for each group, from what the simulation chose; the answer is checked (external_placer.h). The
  // sequence is the order in which a step is simulated.
  std::function<Result<std::vector<int>>(const Problem&, const std::vector<int32_t>& sequence, const std::vector<int>& start)> placer;
  std::string placer_name;
  bool explain = false;  // fill in alternatives and the time line
  bool spans = false;    // fill in the time line alone
};

// Why a node is where it is.
enum class Reason : uint8_t {
  kOnlyDevice,      // there is one device
  kOnlyKernel,      // one device has a kernel
  kDeviceName,      // its device name, or the placement file, leaves one
  kTogether,        // with the node `with`
  kEarliestFinish,  // the simulation found it best
  kPlacer,          // an external placer said so
};

struct Choice {
  Reason reason = Reason::kOnlyDevice;
  int32_t with = -1;  // node id, for kTogether
};

// What could have been: the step's part up to this node would end at `seconds` there.
struct Alternative {
  int device = -1;
  double seconds = 0;
};

struct NodeSpan {
  int32_t node = -1;
  int device = -1;
  double start = 0, finish = 0;  // seconds from the step's start
};

struct TransferSpan {
  graph::Edge value;
  int from = -1, to = -1;  // devices
  double bytes = 0;
  double start = 0, finish = 0;
};

struct Placement {
  std::vector<int> device_of_node;  // by node id; -1: not in the order
  std::vector<Choice> choices;      // by node id
  std::vector<std::string> notes;   // preferences that were dropped, costs that were guessed
  size_t dropped = 0;               // how many of the notes, the first ones, are of dropped preferences
  // What the simulation says; `sequence` is the order in which it starts nodes, topological again. One device alone is
  // not simulated unless the request asks to explain: then these are empty and 0.
  std::vector<int32_t> sequence;
  double seconds = 0;
  std::vector<double> peak_bytes;  // by device
  int64_t transfers = 0;
  double transfer_bytes = 0;
  // When Request::explain: alternatives by node id, the time line by start; of the latter also when Request::spans.
  std::vector<std::vector<Alternative>> alternatives;
  std::vector<NodeSpan> node_spans;
  std::vector<TransferSpan> transfer_spans;
};

// INVALID_ARGUMENT: contradicting or malformed device names (both nodes named). NOT_FOUND: a name that no device has.
// UNIMPLEMENTED: a node without a kernel anywhere. RESOURCE_EXHAUSTED: it fits on no devices' memory.
Result<Placement> Place(const Request& request);

}  // namespace tenon::place

#endif  // TENON_CORE_PLACE_PLACE_H_
