// SPDX-License-Identifier: Apache-2.0
#include "core/place/place.h"

#include "core/place/constraints.h"
#include "core/place/groups.h"

namespace tenon::place {
namespace {

// Of the devices of a set the one with the highest priority, the first of equals.
int Preferred(const Request& request, const std::vector<int>& devices) {
  int best = devices[0];
  for (int device : devices)
    if ((*request.devices)[static_cast<size_t>(device)].priority > (*request.devices)[static_cast<size_t>(best)].priority) best = device;
  return best;
}

// Node ids to places in the order.
Result<std::vector<int32_t>> Positions(const Request& request) {
  std::vector<int32_t> position(static_cast<size_t>(request.graph->size()), -1);
  for (size_t i = 0; i < request.order.size(); ++i) {
    int32_t& slot = position[static_cast<size_t>(request.order[i])];
    if (slot >= 0) return Internal(StrCat(request.graph->node(request.order[i]).Describe(), " is twice in the order to place"));
    slot = static_cast<int32_t>(i);
  }
  return position;
}

// Why a node is where it is, as far as sets tell; kEarliestFinish where they leave a choice.
Choice Explain(const Request& request, const Constraints& constraints, const Groups& groups, DeviceSets* sets, size_t position) {
  if (request.devices->size() == 1) return {Reason::kOnlyDevice, -1};
  const auto is_one = [sets](int set) { return sets->devices(set).size() == 1; };
  if (is_one(constraints.kernels[position])) return {Reason::kOnlyKernel, -1};
  const int own = sets->Intersect(constraints.kernels[position], constraints.wishes[position]);
  if (is_one(own)) return {Reason::kDeviceName, -1};
  const int32_t first = groups.of(groups.group_of[position])[0];
  if (static_cast<size_t>(first) != position) return {Reason::kTogether, request.order[static_cast<size_t>(first)]};
  return {Reason::kEarliestFinish, -1};
}

}  // namespace

Result<Placement> Place(const Request& request) {
  Placement out;
  out.device_of_node.assign(static_cast<size_t>(request.graph->size()), -1);
  out.choices.resize(out.device_of_node.size());
  if (request.devices->empty()) return NotFound("there is no device to place nodes on; load a plugin that brings one");
  DeviceSets sets(request.devices->size());
  TENON_ASSIGN_OR_RETURN(const std::vector<int32_t> position, Positions(request));
  TENON_ASSIGN_OR_RETURN(Constraints constraints, FindConstraints(request, &sets));
  TENON_ASSIGN_OR_RETURN(Groups groups, FindGroups(request, position, constraints, &sets));
  out.notes = std::move(constraints.notes);
  out.notes.insert(out.notes.end(), groups.notes.begin(), groups.notes.end());
  for (size_t i = 0; i < request.order.size(); ++i) {
    const size_t id = static_cast<size_t>(request.order[i]);
    out.device_of_node[id] = Preferred(request, sets.devices(groups.sets[static_cast<size_t>(groups.group_of[i])]));
    out.choices[id] = Explain(request, constraints, groups, &sets, i);
  }
  return out;
}

}  // namespace tenon::place
