// SPDX-License-Identifier: Apache-2.0
#include "core/place/external_placer.h"

#include <limits>

#include "core/place/schedule.h"

namespace tenon::place {
namespace {

// The arrays that the C struct points at.
class Arguments {
 public:
  Arguments(const Problem& problem, const std::vector<int32_t>& sequence, const std::vector<int>& start)
      : problem_(problem), sequence_(sequence), schedule_(&problem), choice_(start.begin(), start.end()) {
    AddDevices();
    for (size_t p = 0; p < problem.size(); ++p) AddNode(p);
    for (int32_t v : problem.fetched) AddEdge(v, -1);
    args_.struct_size = sizeof(args_);
    args_.node_services = graph::NodeServices();
    args_.nodes = nodes_.data();
    args_.node_count = nodes_.size();
    args_.devices = devices_.data();
    args_.device_count = devices_.size();
    args_.host_device = problem.host;
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
  std::vector<int> choice() const { return {choice_.begin(), choice_.end()}; }

 private:
  void AddDevices() {
    for (const DeviceInfo& device : *problem_.devices) devices_.push_back({Span(device.name), Span(device.type), device.memory_bytes});
    for (const Link& link : problem_.links) {
      latency_.push_back(link.latency_seconds);
      bytes_per_second_.push_back(link.bytes_per_second);
    }
  }

  void AddNode(size_t p) {
    nodes_.push_back(&problem_.node(p));
    const int32_t group = problem_.groups.group_of[p];
    groups_.push_back(group);
    for (size_t d = 0; d < problem_.device_count(); ++d) {
      const int device = static_cast<int>(d);
      const bool may = problem_.sets.Contains(problem_.groups.sets[group], device);
      seconds_.push_back(may ? problem_.SecondsOf(p, device) : -1);
    }
    double bytes = problem_.resident_bytes[p];
    for (size_t v = static_cast<size_t>(problem_.first_value[p]); problem_.values[v].edge.index >= 0; ++v)
      if (problem_.values[v].storage == static_cast<int32_t>(v)) bytes += problem_.values[v].bytes;
    memory_.push_back(bytes);
    for (int32_t v : problem_.inputs_of(p)) AddEdge(v, static_cast<int64_t>(p));
  }

  void AddEdge(int32_t v, int64_t to) {
    const Value& value = problem_.values[v];
    edges_.push_back({value.producer, to, value.bytes, value.edge.index, 0});
  }

  static tenon_status* Evaluate(const tenon_place_args* args, const int32_t* devices, double* out_seconds) {
    auto* self = static_cast<Arguments*>(args->host);
    const std::vector<int> wanted(devices, devices + self->problem_.groups.size());
    if (Status status = CheckAssignment(self->problem_, wanted); !status.ok()) return status.release();
    *out_seconds = Simulate(self->problem_, self->sequence_, wanted, &self->schedule_, std::numeric_limits<double>::infinity());
    return nullptr;
  }

  const Problem& problem_;
  const std::vector<int32_t>& sequence_;
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

Status CheckAssignment(const Problem& problem, const std::vector<int>& device_of_group) {
  if (device_of_group.size() != problem.groups.size())
    return InvalidArgument(StrCat("a placement of ", device_of_group.size(), " groups, there are ", problem.groups.size()));
  for (size_t g = 0; g < device_of_group.size(); ++g) {
    const int device = device_of_group[g];
    const std::string node = problem.node(static_cast<size_t>(problem.groups.of(static_cast<int32_t>(g))[0])).Describe();
    if (device < 0 || static_cast<size_t>(device) >= problem.device_count())
      return InvalidArgument(StrCat(node, " is put on device ", device, "; there are ", problem.device_count()));
    if (!problem.sets.Contains(problem.groups.sets[g], device))
      return InvalidArgument(StrCat(node, " is put on ", (*problem.devices)[device].name, ", where it cannot go"));
  }
  return Status::Ok();
}

Result<std::vector<int>> AskPlacer(const tenon_placer& placer, tenon_plugin_self* self, const Problem& problem,
                                   const std::vector<int32_t>& sequence, const std::vector<int>& start) {
  if (placer.place == nullptr) return Unimplemented("the placer has no function 'place'");
  Arguments arguments(problem, sequence, start);
  TENON_RETURN_IF_ERROR(Status(placer.place(self, arguments.c())));
  return arguments.choice();
}

}  // namespace tenon::place
