// SPDX-License-Identifier: Apache-2.0
#include "core/session/placement.h"

#include <algorithm>

#include "core/exec/device/device.h"
#include "core/exec/device/environment.h"
#include "core/exec/kernel/kernel_question.h"
#include "core/exec/kernel/node_runner.h"
#include "core/exec/plan/plan.h"
#include "core/place/device_name.h"

namespace tenon::session {

place::Link LinkBetween(const exec::SessionDevice& from, const exec::SessionDevice& to, const place::Link& network,
                        const exec::DeviceCopy* between_drivers) {
  if (between_drivers != nullptr && between_drivers->table->bytes_per_second > 0)
    return {between_drivers->table->seconds, between_drivers->table->bytes_per_second};
  const auto to_host = [](const exec::SessionDevice& device) -> place::Link {
    if (!device.queued()) return {};
    return {device.device->properties.copy_seconds, device.device->properties.link_bytes_per_second};
  };
  const tenon_device_properties& own = from.device->properties;
  const bool together = place::TaskOf(from.device->name) == place::TaskOf(to.device->name);
  if (together && from.queued() && to.queued() && from.device->driver == to.device->driver &&
      own.peer_bytes_per_second > 0)
    return {own.copy_seconds, own.peer_bytes_per_second, own.copy_seconds, place::DeviceId(from.index)};
  const place::Link out = to_host(from), in = to_host(to);
  const place::Link between = together ? place::Link{} : network;
  const auto seconds_a_byte = [](const place::Link& link) {
    return link.bytes_per_second > 0 ? 1 / link.bytes_per_second : 0;
  };
  const double all = seconds_a_byte(out) + seconds_a_byte(between) + seconds_a_byte(in);
  const double latency = out.latency_seconds + between.latency_seconds + in.latency_seconds;
  // What leaves a device goes through one queue of it, copy after copy, whatever the memory that it goes to; so does
  // what comes from the host.
  const bool by_one_queue = together && from.queued() != to.queued();
  return {latency, all > 0 ? 1 / all : 0, by_one_queue ? latency : 0,
          by_one_queue && from.queued() ? place::DeviceId(from.index) : place::DeviceId()};
}

place::Devices DescribeDevices(const exec::Environment& env) {
  place::Devices devices;
  for (const exec::SessionDevice& each : env.devices) {
    const exec::Device& device = *each.device;
    place::DeviceInfo info;
    info.name = device.name;
    info.type = device.type;
    info.priority = device.driver == nullptr ? 0 : device.driver->priority;
    info.flops = device.properties.flops;
    info.bytes_per_second = device.properties.bytes_per_second;
    info.launch_seconds = device.properties.launch_seconds;
    info.memory_bytes = static_cast<double>(device.memory_bytes);
    info.host_memory = each.memory == 0;
    devices.push_back(std::move(info));
  }
  return devices;
}

Result<place::Request> MakePlaceRequest(const graph::Graph& graph, const std::vector<graph::Edge>& feeds,
                                        const std::vector<graph::Edge>& fetches, const exec::Environment& env,
                                        const place::Devices& devices) {
  place::Request request;
  request.graph = &graph;
  TENON_ASSIGN_OR_RETURN(request.order.list(), graph.TopologicalOrder());
  request.feeds = feeds;
  request.fetches = fetches;
  request.devices = &devices;
  const exec::Environment* session = &env;
  // Those that take the node, whatever its shapes are. One that fails when it is asked stays: the plan that asks it
  // again says how it fails.
  const auto find = [session](const graph::Node& node, place::DeviceId device) {
    const exec::SessionDevice& on = session->devices[device.index()];
    std::vector<exec::KernelEntry> kernels = session->kernels->Find(node, on.device->type);
    std::vector<exec::KernelRefusal> refused;
    (void)exec::KeepThoseThatTakeIt(node, *session, &on, &kernels, &refused).ok();
    return kernels;
  };
  // What has open inputs is there to name a feed, and does not run.
  const auto is_open = [](const graph::Node& node) {
    return std::any_of(node.inputs.begin(), node.inputs.end(), [](const graph::Edge& edge) { return !edge.node; });
  };
  request.can_run = [find, is_open](const graph::Node& node, place::DeviceId device) {
    return !exec::NeedsKernel(node) || is_open(node) || !find(node, device).empty();
  };
  request.why_none = [session](const graph::Node& node) {
    std::vector<exec::KernelRefusal> refused;
    for (const exec::SessionDevice& device : session->devices) {
      std::vector<exec::KernelEntry> kernels = session->kernels->Find(node, device.device->type);
      (void)exec::KeepThoseThatTakeIt(node, *session, &device, &kernels, &refused).ok();
    }
    const Status why = refused.empty() ? session->kernels->NoKernel(node, session->devices[0].device->type)
                                       : exec::NobodyTakes(node, refused);
    return std::string(why.message());
  };
  const auto on_host = [session, find](const graph::Node& node, place::DeviceId device, bool input, int index) {
    if (!session->devices[device.index()].queued() || !exec::NeedsKernel(node)) return false;
    const std::vector<exec::KernelEntry> kernels = find(node, device);
    return !kernels.empty() && exec::WantsHostMemory(node, *kernels[0].registration, input, static_cast<size_t>(index));
  };
  request.host_input = [on_host](const graph::Node& node, place::DeviceId device, int input) {
    return on_host(node, device, true, input);
  };
  request.host_output = [on_host](const graph::Node& node, place::DeviceId device, int output) {
    return on_host(node, device, false, output);
  };
  request.is_view = [find](const graph::Node& node, place::DeviceId device) {
    const std::vector<exec::KernelEntry> kernels = find(node, device);
    return !kernels.empty() && (kernels[0].registration->traits & TENON_KERNEL_VIEW) != 0;
  };
  request.run_by_host = [session, find](const graph::Node& node, place::DeviceId device) {
    if (!session->devices[device.index()].queued() || !exec::NeedsKernel(node)) return false;
    const std::vector<exec::KernelEntry> kernels = find(node, device);
    return !kernels.empty() && kernels[0].registration->device_type.size == 0;
  };
  request.kernel_seconds = [session, find](const graph::Node& node, place::DeviceId device,
                                           const graph::ShapeInference& shapes) {
    if (!exec::NeedsKernel(node)) return 0.0;
    const std::vector<exec::KernelEntry> kernels = find(node, device);
    return kernels.empty() ? 0.0
                           : exec::SecondsOf(node, *session, &session->devices[device.index()], kernels[0], shapes);
  };
  request.link = [session](place::DeviceId from, place::DeviceId to) {
    const exec::SessionDevice &source = session->devices[from.index()], &target = session->devices[to.index()];
    return LinkBetween(source, target, kGuessedNetwork,
                       session->FindCopy(source.device->handle, target.device->handle));
  };
  return request;
}

void ApplyPlacement(const place::Placement& placement, const place::Devices& devices, graph::Graph* graph) {
  for (const graph::NodeId id : graph->ids())
    if (const place::DeviceId device = placement.device_of_node[id])
      graph->mutable_node(id).device = devices[device].name;
}

}  // namespace tenon::session
