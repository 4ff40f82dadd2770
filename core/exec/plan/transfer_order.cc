// SPDX-License-Identifier: Apache-2.0
#include "core/exec/plan/transfer_order.h"

#include <algorithm>

#include "core/exec/device/environment.h"
#include "core/exec/kernel/node_runner.h"
#include "core/exec/plan/plan.h"
#include "core/exec/plan/step_times.h"
#include "core/graph/graph.h"
#include "core/graph/loop_analysis.h"
#include "core/partition/deadness.h"
#include "core/partition/schedule_receives.h"

namespace tenon::exec {

using graph::Edge;
using graph::LoopAnalysis;
using graph::Node;

namespace {

class Orderer {
 public:
  Orderer(const Plan& plan, graph::NodeId first_added)
      : plan_(plan), graph_(plan.graph()), own_(plan.order()), first_added_(first_added), position_(graph_.size(), -1),
        crossing_of_(position_.size(), -1), front_(own_.size() + 1), behind_(own_.size() + 1) {
    for (size_t i = 0; i < own_.size(); ++i) position_[own_[i]] = static_cast<int32_t>(i);
  }

  Result<TransferOrder> Order() {
    for (const graph::NodeId id : Added()) FindAnchor(id);
    const bool scheduled = !plan_.options().early_transfers && Schedule(&out_);
    if (!scheduled)
      for (const graph::NodeId id : Added()) PutBehind(id);
    WriteOrder();
    if (scheduled) TENON_RETURN_IF_ERROR(FindWaits());
    return std::move(out_);
  }

 private:
  IdRange<graph::NodeId> Added() const { return {first_added_, graph_.next_id()}; }
  bool IsAdded(graph::NodeId id) const { return id >= first_added_; }
  const Environment& env() const { return plan_.env(); }
  int32_t LaneOf(graph::NodeId id) const {
    const NodeRunner* runner = plan_.runner(id).get();
    return runner == nullptr || runner->queued_on() == nullptr ? 0 : runner->queued_on()->index;
  }
  int32_t MemoryOf(graph::NodeId transfer) const { return env().devices[plan_.DeviceOf(transfer)].memory; }

  // An added node stands behind the last of what it comes after.
  void FindAnchor(graph::NodeId id) {
    int32_t& at = position_[id];
    for (const Edge& edge : graph_.node(id).inputs) at = std::max(at, position_[edge.node]);
    for (graph::NodeId control : graph_.node(id).controls) at = std::max(at, position_[control]);
  }
  void PutBehind(graph::NodeId id) { behind_[position_[id] + 1].push_back(id); }

  // A transfer from the host to a device, and the nodes that read it; a transfer from a device counts as its readers'
  // own.
  bool IsCrossing(graph::NodeId id) const {
    if (plan_.ChannelOf(id)) return graph_.node(id).has(TENON_OP_RECV);
    return IsAdded(id) && plan_.TransferFrom(id) == 0 && MemoryOf(id) != 0;
  }

  // False: nothing crosses.
  bool Schedule(TransferOrder* out) {
    problem_.lanes = problem_.links = static_cast<int32_t>(env().devices.size());
    problem_.tasks.resize(own_.size());
    for (size_t i = 0; i < own_.size(); ++i) {
      const Node& node = graph_.node(own_[i]);
      ReceiveProblem::Task& task = problem_.tasks[i];
      task.lane = LaneOf(node.id);
      task.seconds = plan_.options().times == nullptr ? 0 : plan_.options().times->SecondsOf(node.id);
      for (const Edge& edge : node.inputs)
        if (plan_.FeedOf(edge) < 0) Read(edge.node, static_cast<int32_t>(i));
      for (graph::NodeId control : node.controls) Read(control, static_cast<int32_t>(i));
    }
    if (crossings_.empty()) return false;
    schedule_ = partition::ScheduleReceives(problem_);
    out->earliest_seconds = schedule_.earliest_seconds;
    out->seconds = schedule_.seconds;
    for (const graph::NodeId id : Added()) {
      const int32_t crossing = crossing_of_[id];
      if (crossing < 0) PutBehind(id);
      else front_[schedule_.before[crossing]].push_back(id);
    }
    return true;
  }

  // Task i reads what `from` makes, perhaps through transfers.
  void Read(graph::NodeId from, int32_t i) {
    while (from && IsAdded(from) && !IsCrossing(from)) {
      if (graph_.node(from).inputs.empty()) return;  // a constant's other copy
      from = graph_.node(from).inputs[0].node;
    }
    if (!from || position_[from] >= i) return;  // a back edge
    ReceiveProblem::Task& task = problem_.tasks[i];
    if (!IsCrossing(from)) {
      if (position_[from] >= 0) task.after.push_back(position_[from]);
      return;
    }
    int32_t& crossing = crossing_of_[from];
    if (crossing < 0) crossing = AddCrossing(from);
    task.crossings.push_back(crossing);
    // What was received and then goes to the device must have been received by then.
    if (IsAdded(from)) Read(graph_.node(from).inputs[0].node, i);
  }

  int32_t AddCrossing(graph::NodeId id) {
    ReceiveProblem::Crossing crossing;
    const Edge value = IsAdded(id) ? plan_.ValueOf(id) : Edge{id, 0};
    if (IsAdded(id)) {
      crossing.producer = position_[id];
      crossing.lane = plan_.DeviceOf(id);
    } else {
      crossing.lane = plan_.options().part->device;
    }
    crossing.link = crossing.lane;
    const StepTimes::Crossing times = plan_.options().times == nullptr
                                          ? StepTimes::Crossing{}
                                          : plan_.options().times->Find(value, env().devices[crossing.lane].memory);
    crossing.seconds = times.seconds;
    crossing.bytes = times.bytes;
    crossings_.push_back(id);
    problem_.crossings.push_back(crossing);
    return static_cast<int32_t>(crossings_.size()) - 1;
  }

  // For each crossing outside of loops, the last node of its lane before it.
  Status FindWaits() {
    TENON_ASSIGN_OR_RETURN(const LoopAnalysis loops, LoopAnalysis::Run(graph_, out_.order));
    const graph::NodeMap<bool> may_be_dead = MayBeDead(loops), waits = Waiting();
    std::vector<std::vector<int32_t>> of_lane(env().devices.size());  // positions of nodes that may be waited for
    for (size_t i = 0; i < own_.size(); ++i) {
      const Node& node = graph_.node(own_[i]);
      if (plan_.runner(node.id) != nullptr && loops.frame_of(node.id) == graph::kStep && !may_be_dead[node.id] &&
          !waits[node.id])
        of_lane[LaneOf(node.id)].push_back(static_cast<int32_t>(i));
    }
    for (size_t c = 0; c < crossings_.size(); ++c) {
      const ReceiveProblem::Crossing& crossing = problem_.crossings[c];
      if (loops.frame_of(crossings_[c]) != graph::kStep) continue;
      const std::vector<int32_t>& lane = of_lane[crossing.lane];
      const auto next = std::lower_bound(lane.begin(), lane.end(), schedule_.before[c]);
      if (next != lane.begin()) out_.waits.emplace(crossings_[c], own_[*std::prev(next)]);
    }
    return Status::Ok();
  }

  // Kernels that end when something else has happened, and what comes after them: that may be what a crossing brings,
  // so no crossing waits for them.
  graph::NodeMap<bool> Waiting() const {
    graph::NodeMap<bool> waits(graph_.size(), false);
    for (const graph::NodeId id : out_.order) {
      const Node& node = graph_.node(id);
      const NodeRunner* const runner = plan_.runner(id).get();
      bool any = runner != nullptr && runner->has(TENON_KERNEL_ASYNC | TENON_KERNEL_BLOCKING);
      for (const Edge& edge : node.inputs) any = any || (edge.node && waits[edge.node]);
      for (const graph::NodeId control : node.controls) any = any || waits[control];
      waits[id] = any;
    }
    return waits;
  }

  // A part does not see what decides about its values: that was found from the whole graph.
  graph::NodeMap<bool> MayBeDead(const LoopAnalysis& loops) const {
    graph::NodeMap<bool> out(graph_.size(), true);
    const PartInfo* part = plan_.options().part.get();
    if (part != nullptr) {
      std::copy(part->nodes_may_be_dead.begin(), part->nodes_may_be_dead.end(), out.begin());
      return out;
    }
    const graph::BranchAnalysis::IsFed is_fed = [this](Edge edge) { return plan_.FeedOf(edge) >= 0; };
    const partition::Deadness deadness(graph_, out_.order, loops, is_fed);
    for (graph::NodeId id : own_) out[id] = deadness.MayBeDead({id, -1});
    return out;
  }

  void WriteOrder() {
    for (size_t i = 0; i <= own_.size(); ++i) {
      out_.order.insert(out_.order.end(), behind_[i].begin(), behind_[i].end());
      out_.order.insert(out_.order.end(), front_[i].begin(), front_[i].end());
      if (i < own_.size()) out_.order.push_back(own_[i]);
    }
  }

  using ReceiveProblem = partition::ReceiveProblem;
  const Plan& plan_;
  const graph::Graph& graph_;
  const std::vector<graph::NodeId>& own_;
  const graph::NodeId first_added_;
  graph::NodeMap<int32_t> position_;     // in own_; of an added one, what it stands behind
  graph::NodeMap<int32_t> crossing_of_;
  std::vector<graph::NodeId> crossings_;
  std::vector<std::vector<graph::NodeId>> front_, behind_;  // added nodes in front of own_[i], behind own_[i - 1]
  ReceiveProblem problem_;
  partition::ReceiveSchedule schedule_;
  TransferOrder out_;
};

}  // namespace

Result<TransferOrder> OrderTransfers(const Plan& plan, graph::NodeId first_added) {
  return Orderer(plan, first_added).Order();
}

}  // namespace tenon::exec
