// SPDX-License-Identifier: Apache-2.0
#include "core/place/place.h"

#include <algorithm>
#include <limits>

#include "core/graph/graph.h"
#include "core/place/choose.h"
#include "core/place/constraints.h"
#include "core/place/cost_model.h"
#include "core/place/external_placer.h"
#include "core/place/groups.h"

namespace tenon::place {
namespace {

Result<Positions> PositionsOf(const Request& request) {
  Positions positions(request.graph->size());
  for (Position position : request.order.ids()) {
    const graph::NodeId id = request.order[position];
    if (positions[id]) return Internal(StrCat(request.graph->node(id).Describe(), " is twice in the order to place"));
    positions[id] = position;
  }
  return positions;
}

class Placer {
 public:
  explicit Placer(const Request& request) : request_(request), sets_(request.devices->size()) {
    out_.device_of_node.resize(request.graph->size());
    out_.choices.resize(out_.device_of_node.size());
  }

  Result<Placement> Place() {
    if (request_.devices->empty())
      return NotFound("there is no device to place nodes on; load a plugin that brings one");
    TENON_ASSIGN_OR_RETURN(constraints_, FindConstraints(request_, &sets_));
    AddNotes(constraints_.notes);
    if (request_.devices->size() == 1 && !request_.explain) {
      for (graph::NodeId id : request_.order) out_.device_of_node[id] = DeviceId(0);
      return std::move(out_);
    }
    TENON_ASSIGN_OR_RETURN(const Positions position, PositionsOf(request_));
    TENON_ASSIGN_OR_RETURN(Groups groups, FindGroups(request_, position, constraints_, &sets_));
    AddNotes(groups.notes);
    TENON_ASSIGN_OR_RETURN(const Problem problem, MakeProblem(request_, position, std::move(groups), std::move(sets_)));
    const Sequence sequence = RankOrder(problem);
    TENON_ASSIGN_OR_RETURN(const Assignment assignment, ChooseAll(problem, sequence));
    TENON_RETURN_IF_ERROR(Write(problem, Shorter(problem, sequence, assignment), assignment));
    return std::move(out_);
  }

 private:
  // Ranks choose devices well; where they are chosen, the order in which the graph was built may keep them busier.
  static Sequence Shorter(const Problem& problem, const Sequence& by_rank, const Assignment& assignment) {
    Sequence as_built(problem.positions().begin(), problem.positions().end());
    Schedule schedule(&problem);
    const double seconds = Simulate(problem, as_built, assignment.device_of_group, &schedule, assignment.seconds);
    return seconds <= assignment.seconds ? as_built : by_rank;
  }
  void AddNotes(const std::vector<std::string>& notes) {
    out_.notes.insert(out_.notes.end(), notes.begin(), notes.end());
    out_.dropped = out_.notes.size();
  }

  Result<Assignment> ChooseAll(const Problem& problem, const Sequence& sequence) {
    auto chosen = Choose(problem, sequence);
    if (!request_.placer || !chosen.ok()) return chosen;
    auto asked = request_.placer(problem, sequence, chosen->device_of_group);
    Status status = asked.ok() ? CheckAssignment(problem, *asked) : std::move(asked).status();
    if (!status.ok()) return std::move(status).Annotate(StrCat("placer '", request_.placer_name, "'"));
    Schedule schedule(&problem);
    const double seconds = Simulate(problem, sequence, *asked, &schedule, std::numeric_limits<double>::infinity());
    if (schedule.over_memory())
      return ResourceExhausted(
          StrCat("placer '", request_.placer_name, "' chose devices whose memory does not suffice"));
    return Assignment{*std::move(asked), seconds};
  }

  // Goes through the step once more and writes down what happens, and what could have.
  Status Write(const Problem& problem, const Sequence& sequence, const Assignment& assignment) {
    Schedule schedule(&problem);
    schedule.Record(&out_);
    if (request_.explain) out_.alternatives.resize(out_.device_of_node.size());
    for (GroupId group : problem.groups.ids()) schedule.AddResident(group, assignment.device_of_group[group]);
    for (Position position : sequence) {
      const graph::NodeId id = request_.order[position];
      const GroupId group = problem.groups.group_of[position];
      out_.sequence.push_back(id);
      if (request_.explain)
        for (DeviceId device : problem.devices_of(group))
          out_.alternatives[id].push_back({device, schedule.FinishOn(position, device)});
      schedule.Take(position, assignment.device_of_group[group]);
      out_.device_of_node[id] = assignment.device_of_group[group];
      out_.choices[id] = ReasonOf(problem, position, assignment.device_of_group[group]);
    }
    out_.seconds = schedule.Finish();
    out_.peak_bytes = schedule.peak_bytes();
    std::stable_sort(out_.node_spans.begin(), out_.node_spans.end(),
                     [](const NodeSpan& a, const NodeSpan& b) { return a.start < b.start; });
    if (problem.guessed_nodes > 0)
      out_.notes.push_back(StrCat(
          "the shapes of ", problem.guessed_nodes, " nodes are not known before the step; unknown dims count as ",
          kGuessedDim, " (several of one value as less), values of unknown rank as ", kGuessedElements, " elements"));
    return Status::Ok();
  }

  // Why a node is where it is, as far as sets tell.
  Choice ReasonOf(const Problem& problem, Position position, DeviceId device) const {
    if (problem.device_count() == 1) return {Reason::kOnlyDevice, {}};
    const auto is_one = [&problem](SetId set) { return problem.sets.devices(set).size() == 1; };
    const GroupId group = problem.groups.group_of[position];
    if (is_one(constraints_.kernels[position])) return {Reason::kOnlyKernel, {}};
    const bool bound = is_one(problem.groups.sets[group]);
    const SetId wish = constraints_.wishes[position];
    if (bound && wish != DeviceSets::kAll && problem.sets.Contains(wish, device) &&
        (is_one(wish) || !request_.of_cluster))
      return {Reason::kDeviceName, {}};
    const Position first = problem.groups.of(group)[0];
    if (first != position) return {Reason::kTogether, request_.order[first]};
    if (bound && request_.of_cluster && MakesState(request_.graph->node(request_.order[position])))
      return {Reason::kState, {}};
    if (bound && wish != DeviceSets::kAll && problem.sets.Contains(wish, device)) return {Reason::kDeviceName, {}};
    if (bound) return {Reason::kTogether, request_.order[problem.groups.of(group).back()]};
    return {request_.placer ? Reason::kPlacer : Reason::kEarliestFinish, {}};
  }

  const Request& request_;
  DeviceSets sets_;
  Constraints constraints_;
  Placement out_;
};

}  // namespace

Result<Placement> Place(const Request& request) { return Placer(request).Place(); }

}  // namespace tenon::place
