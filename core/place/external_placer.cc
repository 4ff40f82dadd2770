// SPDX-License-Identifier: Apache-2.0
#include "core/place/external_placer.h"

#include <limits>
#include <span>

#include "core/place/schedule.h"

namespace tenon::place {
namespace {

// The arrays that the C struct points at.
class Arguments {
 public:
  Arguments(const Problem& problem, const Sequence& sequence, const GroupDevices& start)
      : problem_(problem), sequence_(sequence), schedule_(&problem) {
    for (DeviceId device : start) choice_.push_back(device.number());
    AddDevices();
    for (Position position : problem.positions()) AddNode(position);
    for (ValueId value : problem.fetched) AddEdge(value, {});
    args_.struct_size = sizeof(args_);
    args_.node_services = graph::NodeServices();
    args_.nodes = nodes_.data();
    args_.node_count = nodes_.size();
    args_.devices = devices_.data();
    args_.device_count = devices_.size();
    args_.host_device = problem.host.number();
    args_.group_count = problem.groups.size();
    args_.groups = groups_.data();
    args_.seconds = seconds_.data();
    args_.memory_bytes = memory_.data();
    args_.edges = edges_.data();
    args_.edge_count = edges_.size();
    args_.latency = latency_.data();
    args_.bytes_per_second = bytes_per_second_.data();
    args_.out_devices = choice_.data();
    args_.evaluate = &Evaluate;
    args_.host = this;
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  const tenon_place_args* c() const { return &args_; }
  GroupDevices choice() const { return Read(choice_.data(), choice_.size()); }

 private:
  void AddDevices() {
    for (const DeviceInfo& device : *problem_.devices)
      devices_.push_back({Span(device.name), Span(device.type), device.memory_bytes});
    for (const Link& link : problem_.links) {
      latency_.push_back(link.latency_seconds);
      bytes_per_second_.push_back(link.bytes_per_second);
    }
  }

  void AddNode(Position p) {
    nodes_.push_back(&problem_.node(p));
    const GroupId group = problem_.groups.group_of[p];
    groups_.push_back(group.number());
    for (DeviceId device : problem_.devices->ids()) {
      const bool may = problem_.sets.Contains(problem_.groups.sets[group], device);
      seconds_.push_back(may ? problem_.SecondsOf(p, device) : -1);
    }
    double bytes = problem_.resident_bytes[p];
    for (ValueId v : problem_.outputs_of(p))
      if (problem_.values[v].storage == v) bytes += problem_.values[v].bytes;
    memory_.push_back(bytes);
    for (ValueId v : problem_.inputs_of(p)) AddEdge(v, p);
  }

  void AddEdge(ValueId v, Position to) {
    const Value& value = problem_.values[v];
    edges_.push_back({value.producer.number(), to.number(), value.bytes, value.edge.index, 0});
  }

  static GroupDevices Read(const int32_t* devices, size_t count) {
    GroupDevices out;
    for (const int32_t device : std::span(devices, count)) out.push_back(DeviceId(device));
    return out;
  }

  static tenon_status* Evaluate(const tenon_place_args* args, const int32_t* devices, double* out_seconds) {
    auto* self = static_cast<Arguments*>(args->host);
    const GroupDevices wanted = Read(devices, self->problem_.groups.size());
    if (Status status = CheckAssignment(self->problem_, wanted); !status.ok()) return status.release();
    *out_seconds =
        Simulate(self->problem_, self->sequence_, wanted, &self->schedule_, std::numeric_limits<double>::infinity());
    return nullptr;
  }

  const Problem& problem_;
  const Sequence& sequence_;
  Schedule schedule_;
  std::vector<const tenon_node*> nodes_;
  std::vector<tenon_place_device> devices_;
  std::vector<int64_t> groups_;
  std::vector<double> seconds_, memory_, latency_, bytes_per_second_;
  std::vector<tenon_place_edge> edges_;
  std::vector<int32_t> choice_;
  tenon_place_args args_{};
};

}  // namespace

Status CheckAssignment(const Problem& problem, const GroupDevices& device_of_group) {
  if (device_of_group.size() != problem.groups.size())
    return InvalidArgument(
        StrCat("a placement of ", device_of_group.size(), " groups, there are ", problem.groups.size()));
  for (GroupId g : device_of_group.ids()) {
    const DeviceId device = device_of_group[g];
    const std::string node = problem.node(problem.groups.of(g)[0]).Describe();
    if (!problem.devices->contains(device))
      return InvalidArgument(
          StrCat(node, " is put on device ", device.number(), "; there are ", problem.device_count()));
    if (!problem.sets.Contains(problem.groups.sets[g], device))
      return InvalidArgument(StrCat(node, " is put on ", (*problem.devices)[device].name, ", where it cannot go"));
  }
  return Status::Ok();
}

Result<GroupDevices> AskPlacer(const tenon_placer& placer, tenon_plugin_self* self, const Problem& problem,
                               const Sequence& sequence, const GroupDevices& start) {
  if (placer.place == nullptr) return Unimplemented("the placer has no function 'place'");
  Arguments arguments(problem, sequence, start);
  TENON_RETURN_IF_ERROR(Status(placer.place(self, arguments.c())));
  return arguments.choice();
}

}  // namespace tenon::place
