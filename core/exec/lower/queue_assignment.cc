// SPDX-License-Identifier: Apache-2.0
#include "core/exec/lower/queue_assignment.h"

#include <algorithm>

#include "core/exec/plan/step_times.h"
#include "core/graph/graph.h"
#include "core/place/cost_model.h"

namespace tenon::exec {

using graph::Node;

QueueId QueueAssignment::ForKernel(const Node& node, const NodeRunner& runner, Operation::Kind kind,
                                   const std::vector<SlotId>& inputs) {
  const SessionDevice& device = *runner.queued_on();
  if (device.compute_count() == 1 || runner.main_queue_only() || kind == Operation::Kind::kDynamic ||
      node.input_types.empty())
    return device.first_queue;
  return ForRegion(device, inputs);
}

QueueId QueueAssignment::ForRegion(const SessionDevice& device, const std::vector<SlotId>& inputs) {
  const QueueId queue = chooser_.Choose(device.first_queue, device.compute_count(), writer_.RootsOf(inputs));
  if (queue == device.first_queue) return queue;
  for (SlotId slot : inputs)
    if (code_.at(slot).memory != 0 && code_.root(slot).home != Home::kArena) writer_.KeepToTheEnd(slot);
  return queue;
}

double QueueAssignment::SecondsOf(const Node& node, const SessionDevice& device) const {
  if (device.compute_count() == 1) return 0;
  if (const StepTimes* times = plan_.options().times.get(); times != nullptr && times->SecondsOf(node.id) > 0)
    return times->SecondsOf(node.id);
  bool guessed = false;
  const auto cost = place::StaticCost(node, facts_.inference(), &guessed);
  const tenon_device_properties& own = device.device->properties;
  place::DeviceInfo info;
  info.flops = own.flops;
  info.bytes_per_second = own.bytes_per_second;
  info.launch_seconds = own.launch_seconds;
  return cost.ok() ? place::SecondsOn(*cost, info) : own.launch_seconds;
}

double QueueAssignment::SecondsOfAll(const std::vector<graph::NodeId>& nodes, const SessionDevice& device) const {
  double seconds = 0;
  for (graph::NodeId id : nodes) {
    const double own = SecondsOf(graph_.node(id), device);
    seconds += own - (seconds > 0 ? std::min(own, device.device->properties.launch_seconds) : 0);
  }
  return seconds;
}

}  // namespace tenon::exec
