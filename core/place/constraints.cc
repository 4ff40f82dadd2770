// SPDX-License-Identifier: Apache-2.0
#include "core/place/constraints.h"

#include <algorithm>
#include <unordered_map>

#include "core/graph/graph.h"
#include "core/place/placement_file.h"

namespace tenon::place {
namespace {

// Turns device names into sets; each different name is read once.
class Names {
 public:
  Names(const Devices& devices, DeviceSets* sets) : devices_(devices), sets_(sets) {}

  Result<SetId> SetOf(const std::string& text) {
    if (text.empty()) return DeviceSets::kAll;
    if (const auto found = known_.find(text); found != known_.end()) return found->second;
    TENON_RETURN_IF_ERROR(ParseDevices());
    TENON_ASSIGN_OR_RETURN(const DeviceName wish, DeviceName::Parse(text));
    DeviceSets::Members members(devices_.size());
    for (DeviceId device : devices_.ids()) members[device] = wish.Matches(parsed_[device]);
    return known_[text] = sets_->Intern(members);
  }
  // All devices of the tasks that a name means, whatever type and index it says.
  Result<SetId> TasksOf(const std::string& text) {
    TENON_ASSIGN_OR_RETURN(DeviceName task, DeviceName::Parse(text));
    task.type.reset();
    task.id.reset();
    return SetOf(task.ToString());
  }

 private:
  Status ParseDevices() {
    while (parsed_.size() < devices_.size()) {
      TENON_ASSIGN_OR_RETURN(DeviceName name, DeviceName::Parse(devices_[parsed_.next_id()].name));
      parsed_.push_back(std::move(name));
    }
    return Status::Ok();
  }

  const Devices& devices_;
  DeviceSets* sets_;
  IdVector<DeviceId, DeviceName> parsed_;
  std::unordered_map<std::string, SetId> known_;
};

// Asks can_run once for each device type.
class Kernels {
 public:
  Kernels(const Request& request, DeviceSets* sets) : request_(request), sets_(sets) {
    const Devices& devices = *request.devices;
    for (const DeviceInfo& device : devices) {
      DeviceId first(0);
      while (devices[first].type != device.type) ++first;
      first_of_type_.push_back(first);
    }
  }

  SetId SetOf(const graph::Node& node) {
    if (!request_.can_run) return DeviceSets::kAll;
    DeviceSets::Members& can = scratch_;
    can.assign(first_of_type_.size(), false);
    bool all = true;
    for (DeviceId device : can.ids()) {
      const DeviceId first = first_of_type_[device];
      can[device] = first == device ? request_.can_run(node, device) : can[first];
      all = all && can[device];
    }
    return all ? DeviceSets::kAll : sets_->Intern(can);
  }

 private:
  const Request& request_;
  DeviceSets* sets_;
  IdVector<DeviceId, DeviceId> first_of_type_;
  DeviceSets::Members scratch_;
};

std::string DeviceList(const Devices& devices) {
  std::string out;
  for (const DeviceInfo& device : devices) out += StrCat(out.empty() ? "" : ", ", device.name);
  return out.empty() ? "none" : out;
}

// "/job:ps/replica:0/task:0, /job:worker/replica:0/task:0".
std::string TaskList(const Devices& devices) {
  std::vector<std::string_view> tasks;
  for (const DeviceInfo& device : devices)
    if (const std::string_view task = TaskOf(device.name); std::find(tasks.begin(), tasks.end(), task) == tasks.end())
      tasks.push_back(task);
  std::string out;
  for (const std::string_view task : tasks) out += StrCat(out.empty() ? "" : ", ", task);
  return out;
}

Status NoKernel(const Request& request, const graph::Node& node) {
  const std::string why = request.why_none ? request.why_none(node) : "";
  return Unimplemented(StrCat(node.Describe(), ": no device can run it", why.empty() ? "" : ": ", why,
                              "; devices tried: ", DeviceList(*request.devices)));
}

const std::string* HomeOf(const Request& request, const graph::Node& node) {
  if (request.homes == nullptr) return nullptr;
  const auto found = request.homes->find(std::string(graph::StateName(node)));
  return found == request.homes->end() ? nullptr : &found->second;
}

}  // namespace

const std::string& WishOf(const Request& request, const graph::Node& node) {
  const std::string* rule = request.file == nullptr ? nullptr : request.file->Find(node.name);
  if (rule != nullptr) return *rule;
  return node.device.empty() ? request.default_device : node.device;
}

Result<Constraints> FindConstraints(const Request& request, DeviceSets* sets) {
  Constraints out;
  Names names(*request.devices, sets);
  Kernels kernels(request, sets);
  for (graph::NodeId id : request.order) {
    const graph::Node& node = request.graph->node(id);
    SetId runs = kernels.SetOf(node);
    if (sets->empty(runs)) return NoKernel(request, node);
    if (const std::string* home = HomeOf(request, node)) {
      TENON_ASSIGN_OR_RETURN(const SetId there, names.SetOf(*home));
      runs = sets->Intersect(runs, there);
      if (sets->empty(runs))
        return FailedPrecondition(
            StrCat(node.Describe(), ": its state is on ", *home, ", where it cannot run any more"));
    }
    const std::string& text = WishOf(request, node);
    auto wish = names.SetOf(text);
    if (!wish.ok()) return std::move(wish).status().Annotate(node.Describe());
    TENON_ASSIGN_OR_RETURN(SetId tasks, names.TasksOf(text));
    if (sets->empty(*wish)) {
      const bool has_task = !sets->empty(tasks);
      const std::string what = StrCat(node.Describe(), " wants ", text,
                                      ", and no device is named so; there are: ", DeviceList(*request.devices));
      if (request.one_task && !has_task)
        return FailedPrecondition(
            StrCat(what, "; what is planned at a task, as a function that a kernel calls, runs on its devices"));
      if (request.of_cluster && !has_task)
        return NotFound(
            StrCat(node.Describe(), " wants ", text,
                   ", and the cluster has no such task; its tasks: ", TaskList(*request.devices),
                   request.soft_placement ? "; soft placement gives a device's type up, never its job and task" : ""));
      if (!request.soft_placement) return NotFound(StrCat(what, "; soft placement would put it elsewhere"));
      out.notes.push_back(
          StrCat(what, request.of_cluster ? "; it goes to another device of the task" : "; it goes elsewhere"));
      if (!has_task) tasks = DeviceSets::kAll;
      wish = tasks;
    }
    out.kernels.push_back(runs);
    out.wishes.push_back(*wish);
    out.tasks.push_back(tasks);
  }
  return out;
}

}  // namespace tenon::place
