// SPDX-License-Identifier: Apache-2.0
// Request: what is to be placed, and what is known of the devices.
#ifndef TENON_CORE_PLACE_REQUEST_H_
#define TENON_CORE_PLACE_REQUEST_H_

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/status.h"
#include "core/graph/edge.h"
#include "core/place/ids.h"

namespace tenon::graph {
class ShapeInference;
}

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

using Devices = IdVector<DeviceId, DeviceInfo>;

// A transfer takes latency_seconds + bytes / bytes_per_second (0: bytes cost nothing). For busy_seconds of the latency,
// and while its bytes go, nothing else goes that way: over this link, or, where `sender` is not none, from this sender
// to anybody.
struct Link {
  double latency_seconds = 0;
  double bytes_per_second = 0;
  double busy_seconds = 0;
  DeviceId sender = {};
};

using Positions = graph::NodeMap<Position>;  // none: the node is not placed

struct Request {
  const graph::Graph* graph = nullptr;
  IdVector<Position, graph::NodeId> order;  // the nodes to place, topological but for the back edges of loops
  std::vector<graph::Edge> feeds, fetches;
  std::vector<DeviceId> feed_devices, fetch_devices;  // whose memory each lies in; none, and all when empty: the host's
  const Devices* devices = nullptr;

  // Whether a device has a kernel for the node; asked once for each device type. True everywhere for nodes that the
  // engine runs itself. Empty function: true.
  std::function<bool(const graph::Node&, DeviceId device)> can_run;
  // For the error: why no device can run it. May be empty.
  std::function<std::string(const graph::Node&)> why_none;
  // Whether the kernel on a device takes input i from host memory, or gives output i in host memory. May be empty: no.
  std::function<bool(const graph::Node&, DeviceId device, int input)> host_input;
  std::function<bool(const graph::Node&, DeviceId device, int output)> host_output;
  // Whether the kernel's output is its input's memory: it costs nothing. May be empty: no.
  std::function<bool(const graph::Node&, DeviceId device)> is_view;
  // Whether the host runs what stands on a device: its kernel is for any device. May be empty: no.
  std::function<bool(const graph::Node&, DeviceId device)> run_by_host;
  // Whether the variants that a node makes may leave their process, where device names ask for it. May be empty: no.
  std::function<bool(const graph::Node&)> variants_may_cross;
  // Seconds of a run on a device, where the kernel says it for shapes that are known; 0: it does not. May be empty.
  std::function<double(const graph::Node&, DeviceId device, const graph::ShapeInference& shapes)> kernel_seconds;
  // Between different devices. May be empty: transfers cost nothing.
  std::function<Link(DeviceId from, DeviceId to)> link;

  std::string default_device;   // for nodes that name none; may be partial
  bool soft_placement =
      false;  // of a device name that cannot hold the type and the index are dropped with a note; else it is an error
  bool one_task = false;  // of a cluster, whose other devices are not among these: a name of another task is an error,
                          // soft placement or not
  // The devices are all of a cluster's. A name of a job or task that it has not is an error, soft placement or not; and
  // what makes a handle or a reference goes where every client of the cluster puts it, as far as its device name leaves
  // that open: groups.h.
  bool of_cluster = false;
  const PlacementFile* file = nullptr;  // goes before the nodes' own device names
  // Whole device names of nodes whose state lives there already, by StateName; nothing moves them.
  const std::unordered_map<std::string, std::string>* homes = nullptr;
  const CostModel* costs = nullptr;     // nullptr: static costs
  // Chooses a device for each group, from what the simulation chose; the answer is checked (external_placer.h). The
  // sequence is the order in which a step is simulated.
  std::function<Result<GroupDevices>(const Problem&, const Sequence& sequence, const GroupDevices& start)> placer;
  std::string placer_name;
  bool explain = false;  // fill in alternatives and the time line
  bool spans = false;    // fill in the time line alone
};

}  // namespace tenon::place

#endif  // TENON_CORE_PLACE_REQUEST_H_
