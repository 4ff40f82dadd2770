// SPDX-License-Identifier: Apache-2.0
#include "core/exec/plan/transfer_order.h"

#include <algorithm>

#include "core/exec/plan/plan.h"
#include "core/partition/deadness.h"
#include "core/partition/schedule_receives.h"

namespace tenon::exec {

using graph::Edge;
using graph::LoopAnalysis;
using graph::Node;

namespace {

class Orderer {
 public:
  Orderer(const Plan& plan, int32_t first_added)
      : plan_(plan), graph_(plan.graph()), own_(plan.order()), first_added_(first_added), position_(static_cast<size_t>(graph_.size()), -1),
        crossing_of_(position_.size(), -1), front_(own_.size() + 1), behind_(own_.size() + 1) {
    for (size_t i = 0; i < own_.size(); ++i) position_[static_cast<size_t>(own_[i])] = static_cast<int32_t>(i);
  }

  Result<TransferOrder> Order() {
    for (int32_t id = first_added_; id < graph_.size(); ++id) FindAnchor(id);
    const bool scheduled = !plan_.options().early_transfers && Schedule(&out_);
    for (int32_t id = first_added_; id < graph_.size() && !scheduled; ++id) PutBehind(id);
    WriteOrder();
    if (scheduled) TENON_RETURN_IF_ERROR(FindWaits());
    return std::move(out_);
  }

 private:
  bool IsAdded(int32_t id) const { return id >= first_added_; }
  const Environment& env() const { return plan_.env(); }
  int32_t LaneOf(int32_t id) const {
    const NodeRunner* runner = plan_.runner(id).get();
    return runner == nullptr || runner->queued_on() == nullptr ? 0 : runner->queued_on()->index;
  }
  int32_t MemoryOf(int32_t transfer) const { return env().devices[static_cast<size_t>(plan_.DeviceOf(transfer))].memory; }

  // An added node stands behind the last of what it comes after.
  void FindAnchor(int32_t id) {
    int32_t& at = position_[static_cast<size_t>(id)];
    for (const Edge& edge : graph_.node(id).inputs) at = std::max(at, position_[static_cast<size_t>(edge.node)]);
    for (int32_t control : graph_.node(id).controls) at = std::max(at, position_[static_cast<size_t>(control)]);
  }
  void PutBehind(int32_t id) { behind_[static_cast<size_t>(position_[static_cast<size_t>(id)] + 1)].push_back(id); }

  // A transfer to a device, and the nodes that read it; a transfer to the host counts as its readers' own.
  bool IsCrossing(int32_t id) const {
    if (plan_.ChannelOf(id) >= 0) return graph_.node(id).has(TENON_OP_RECV);
    return IsAdded(id) && plan_.TransferFrom(id) >= 0 && MemoryOf(id) != 0;
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
      for (int32_t control : node.controls) Read(control, static_cast<int32_t>(i));
    }
    if (crossings_.empty()) return false;
    schedule_ = partition::ScheduleReceives(problem_);
    out->earliest_seconds = schedule_.earliest_seconds;
    out->seconds = schedule_.seconds;
    for (int32_t id = first_added_; id < graph_.size(); ++id) {
      const int32_t crossing = crossing_of_[static_cast<size_t>(id)];
      if (crossing < 0) PutBehind(id);
      else front_[static_cast<size_t>(schedule_.before[static_cast<size_t>(crossing)])].push_back(id);
    }
    return true;
  }

  // Task i reads what `from` makes, perhaps through transfers.
  void Read(int32_t from, int32_t i) {
    while (from >= 0 && IsAdded(from) && !IsCrossing(from)) {
      if (graph_.node(from).inputs.empty()) return;  // a constant's other copy
      from = graph_.node(from).inputs[0].node;
    }
    if (from < 0 || position_[static_cast<size_t>(from)] >= i) return;  // a back edge
    ReceiveProblem::Task& task = problem_.tasks[static_cast<size_t>(i)];
    if (!IsCrossing(from)) {
      if (position_[static_cast<size_t>(from)] >= 0) task.after.push_back(position_[static_cast<size_t>(from)]);
      return;
    }
    int32_t& crossing = crossing_of_[static_cast<size_t>(from)];
    if (crossing < 0) crossing = AddCrossing(from);
    task.crossings.push_back(crossing);
    // What was received and then goes to the device must have been received by then.
    if (IsAdded(from)) Read(graph_.node(from).inputs[0].node, i);
  }

  int32_t AddCrossing(int32_t id) {
    ReceiveProblem::Crossing crossing;
    Edge value{id, 0};
    if (IsAdded(id)) {
      crossing.producer = position_[static_cast<size_t>(id)];
      crossing.lane = plan_.DeviceOf(id);
      while (value.node >= 0 && IsAdded(value.node)) value = graph_.node(value.node).inputs[0];
    } else {
      crossing.lane = plan_.options().part->device;
    }
    crossing.link = crossing.lane;
    const StepTimes::Crossing times = plan_.options().times == nullptr ? StepTimes::Crossing{} : plan_.options().times->Find(value, env().devices[static_cast<size_t>(crossing.lane)].memory);
    crossing.seconds = times.seconds;
    crossing.bytes = times.bytes;
    crossings_.push_back(id);
    problem_.crossings.push_back(crossing);
    return static_cast<int32_t>(crossings_.size()) - 1;
  }

  // For each crossing outside of loops, the last node of its lane before it.
  Status FindWaits() {
    TENON_ASSIGN_OR_RETURN(const LoopAnalysis loops, LoopAnalysis::Run(graph_, out_.order));
    const std::vector<bool> may_be_dead = MayBeDead(loops);
    std::vector<std::vector<int32_t>> of_lane(env().devices.size());  // positions of nodes that may be waited for
    for (size_t i = 0; i < own_.size(); ++i) {
      const Node& node = graph_.node(own_[i]);
      if (plan_.runner(node.id) != nullptr && loops.frame_of(node.id) == 0 && !may_be_dead[static_cast<size_t>(node.id)])
        of_lane[static_cast<size_t>(LaneOf(node.id))].push_back(static_cast<int32_t>(i));
    }
    for (size_t c = 0; c < crossings_.size(); ++c) {
      const ReceiveProblem::Crossing& crossing = problem_.crossings[c];
      if (loops.frame_of(crossings_[c]) != 0) continue;
      const std::vector<int32_t>& lane = of_lane[static_cast<size_t>(crossing.lane)];
      const auto next = std::lower_bound(lane.begin(), lane.end(), schedule_.before[c]);
      if (next != lane.begin()) out_.waits.emplace(crossings_[c], own_[static_cast<size_t>(*std::prev(next))]);
    }
    return Status::Ok();
  }

  // By node. A part does not see what decides about its values: that was found from the whole graph.
  std::vector<bool> MayBeDead(const LoopAnalysis& loops) const {
    std::vector<bool> out(static_cast<size_t>(graph_.size()), true);
    const PartInfo* part = plan_.options().part.get();
    if (part != nullptr) {
      std::copy(part->nodes_may_be_dead.begin(), part->nodes_may_be_dead.end(), out.begin());
      return out;
    }
    const graph::BranchAnalysis::IsFed is_fed = [this](Edge edge) { return plan_.FeedOf(edge) >= 0; };
    const partition::Deadness deadness(graph_, out_.order, loops, is_fed);
    for (int32_t id : own_) out[static_cast<size_t>(id)] = deadness.MayBeDead({id, -1});
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
  const std::vector<int32_t>& own_;
  const int32_t first_added_;
  std::vector<int32_t> position_;     // by node: in own_; of an added one, what it stands behind
  std::vector<int32_t> crossing_of_;  // by node
  std::vector<int32_t> crossings_;    // nodes
  std::vector<std::vector<int32_t>> front_, behind_;  // added nodes in front of own_[i], behind own_[i - 1]
  ReceiveProblem problem_;
  partition::ReceiveSchedule schedule_;
  TransferOrder out_;
};

}  // namespace

Result<TransferOrder> OrderTransfers(const Plan& plan, int32_t first_added) { return Orderer(plan, first_added).Order(); }

}  // namespace tenon::exec
