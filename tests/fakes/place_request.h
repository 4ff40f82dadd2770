// SPDX-License-Identifier: Apache-2.0
// Requests to place graphs of tiny ops: devices of round speeds, links, and short questions about the answer.
#ifndef TENON_TESTS_FAKES_PLACE_REQUEST_H_
#define TENON_TESTS_FAKES_PLACE_REQUEST_H_

#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/place/choose.h"
#include "core/place/place.h"
#include "tests/fakes/tiny_ops.h"

namespace tenon::fakes {

// Speed: operations a second, in millions; memory is fast enough not to count.
inline place::DeviceInfo MakeDevice(std::string type, int index, double speed, bool host = false) {
  place::DeviceInfo device;
  device.name = StrCat("/job:localhost/replica:0/task:0/device:", type, ":", index);
  device.type = std::move(type);
  device.flops = speed * 1e6;
  device.bytes_per_second = 1e15;
  device.host_memory = host;
  return device;
}

struct PlaceMaker : GraphMaker {
  place::Devices devices = {MakeDevice("HOST", 0, 1, true), MakeDevice("FAST", 0, 10), MakeDevice("FAST", 1, 10)};
  place::Link link{1e-3, 1e6};
  place::Request request;
  std::map<std::string, std::set<std::string>> kernels;  // op -> device types; an op that is not here runs anywhere

  place::Request& Ask() {
    request.graph = &graph;
    request.order.list() = Order();
    request.devices = &devices;
    request.link = [this](place::DeviceId, place::DeviceId) { return link; };
    request.can_run = [this](const graph::Node& node, place::DeviceId device) {
      const auto found = kernels.find(node.op->name);
      return found == kernels.end() || found->second.contains(devices[device].type);
    };
    return request;
  }
  place::Placement Placed() {
    auto placement = place::Place(Ask());
    EXPECT_TRUE(placement.ok()) << placement.status().ToString();
    return placement.ok() ? *std::move(placement)
                          : place::Placement{
                                graph::NodeMap<place::DeviceId>(graph.size()), {}, {}, 0, {}, 0, {}, 0, 0, {}, {}, {}};
  }
  Status Error() {
    auto placement = place::Place(Ask());
    EXPECT_FALSE(placement.ok()) << "it was placed";
    return placement.ok() ? Status() : placement.status();
  }
  void Pin(graph::Edge edge, std::string device) { graph.mutable_node(edge.node).device = std::move(device); }
  // Time of `seconds` on the host device.
  graph::Edge Seconds(Edges inputs, double seconds, int64_t bytes = 4, std::string_view name = {}) {
    return Work(std::move(inputs), static_cast<float>(seconds * 1e6), Shape{bytes / 4}, name);
  }
};

// A graph as the problem of placing it.
struct MadeProblem {
  explicit MadeProblem(const place::Request& request) : sets(request.devices->size()) {
    place::Positions positions(request.graph->size());
    for (place::Position position : request.order.ids()) positions[request.order[position]] = position;
    auto constraints = place::FindConstraints(request, &sets);
    EXPECT_TRUE(constraints.ok()) << constraints.status().ToString();
    auto groups = place::FindGroups(request, positions, *constraints, &sets);
    EXPECT_TRUE(groups.ok()) << groups.status().ToString();
    auto made = place::MakeProblem(request, positions, *std::move(groups), std::move(sets));
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    problem = *std::move(made);
    sequence = place::RankOrder(problem);
  }
  place::DeviceSets sets;
  place::Problem problem;
  place::Sequence sequence;
};

}  // namespace tenon::fakes

#endif  // TENON_TESTS_FAKES_PLACE_REQUEST_H_
