// SPDX-License-Identifier: Apache-2.0
#include "core/exec/dataflow/dynamic_plan.h"

#include <algorithm>

#include "core/exec/device/environment.h"
#include "core/exec/kernel/node_runner.h"
#include "core/exec/threads/host_threads.h"
#include "core/graph/graph.h"
#include "core/graph/loop_analysis.h"

namespace tenon::exec {

using graph::Edge;
using graph::Node;

namespace {

bool BoolAttr(const Node& node, std::string_view name) {
  const graph::AttrValue* value = node.FindAttr(name);
  return value != nullptr && value->kind() == TENON_ATTR_BOOL && value->b();
}

DynamicPlan::Kind KindOf(const Node& node) {
  using Kind = DynamicPlan::Kind;
  if (node.has(TENON_OP_NO_OP | TENON_OP_CONTROL_TRIGGER)) return Kind::kTrigger;
  if (node.has(TENON_OP_CONSTANT)) return Kind::kConstant;
  if (node.has(TENON_OP_SWITCH)) return Kind::kSwitch;
  if (node.has(TENON_OP_MERGE)) return Kind::kMerge;
  if (node.has(TENON_OP_ENTER)) return Kind::kEnter;
  if (node.has(TENON_OP_EXIT)) return Kind::kExit;
  if (node.has(TENON_OP_NEXT_ITERATION)) return Kind::kNextIteration;
  if (node.has(TENON_OP_IDENTITY | TENON_OP_LOOP_CONDITION)) return Kind::kForward;
  if (node.has(TENON_OP_FEED | TENON_OP_ARGUMENT)) return Kind::kUnfed;
  if (node.has(TENON_OP_SEND)) return Kind::kSend;
  if (node.has(TENON_OP_RECV)) return Kind::kReceive;
  return Kind::kKernel;
}

}  // namespace

Result<std::unique_ptr<const DynamicPlan>> DynamicPlan::Create(const Plan& plan, DeviceConstants* constants) {
  std::unique_ptr<DynamicPlan> dynamic(new DynamicPlan(&plan, constants));
  TENON_RETURN_IF_ERROR(dynamic->Fill());
  return std::unique_ptr<const DynamicPlan>(std::move(dynamic));
}

DynamicPlan::DynamicPlan(const Plan* plan, DeviceConstants* constants) : plan_(plan), constants_(constants) {}

Status DynamicPlan::Fill() {
  TENON_ASSIGN_OR_RETURN(const graph::LoopAnalysis loops, graph::LoopAnalysis::Run(plan_->graph(), plan_->order()));
  frames_.resize(loops.frames().size());
  for (const FrameId i : frames_.ids()) {
    FrameInfo& frame = frames_[i];
    const graph::Frame& from = loops.frame(i);
    frame.parent = from.parent;
    frame.enters = static_cast<int32_t>(from.enters.size());
    if (i == graph::kStep) continue;
    FrameInfo& parent = frames_[frame.parent];  // parents come first
    frame.depth = parent.depth + 1;
    frame.child = static_cast<int>(parent.children.size());
    parent.children.push_back(i);
    const graph::AttrValue* parallel = plan_->graph().node(from.enters[0]).FindAttr("parallel_iterations");
    if (parallel != nullptr && parallel->kind() == TENON_ATTR_INT)
      frame.parallel_iterations = std::max<int64_t>(1, parallel->i());
  }
  for (size_t i = 0; i < plan_->feeds().size(); ++i) (void)AddSlot(graph::kStep);
  TENON_RETURN_IF_ERROR(LayOutNodes(loops));
  TENON_RETURN_IF_ERROR(Connect());
  if (plan_->uses_queues()) FindFollowers();
  return FindFetches();
}

// Kernels and sends with a control edge from a queue that is not theirs. Nodes of the engine pass on what they come
// after.
void DynamicPlan::FindFollowers() {
  const graph::Graph& graph = plan_->graph();
  graph::NodeMap<int64_t> after(graph.size(), 0);  // bits: queues' devices; those from 63 on share a bit
  const auto bit = [](int32_t device) { return int64_t{1} << std::min(device, 62); };
  for (graph::NodeId id : plan_->order()) {
    const Node& node = graph.node(id);
    int64_t by_control = 0, by_data = 0;
    for (graph::NodeId control : node.controls) by_control |= after[control];
    for (const Edge& edge : node.inputs)
      if (edge.node && plan_->FeedOf(edge) < 0) by_data |= after[edge.node];
    const NodeRunner* runner = plan_->runner(id).get();
    const int64_t own = runner != nullptr && runner->queued_on() != nullptr ? bit(runner->queued_on()->index) : 0;
    after[id] = runner == nullptr ? by_control | by_data : own;
    const bool acts = runner != nullptr || node.has(TENON_OP_SEND);
    if (acts && (by_control & ~own) != 0 && Runs(id)) InfoOf(id).follows_queues = InfoOf(id).host_waits = true;
  }
}

int32_t DynamicPlan::AddSlot(FrameId frame) {
  std::vector<SlotInfo>& slots = frames_[frame].slots;
  slots.emplace_back();
  return static_cast<int32_t>(slots.size() - 1);
}

FrameId DynamicPlan::Onward(const NodeInfo& info) const {
  const FrameInfo& frame = frames_[info.frame];
  if (info.kind == Kind::kEnter) return frame.children[info.entered];
  return info.kind == Kind::kExit ? frame.parent : info.frame;
}

Status DynamicPlan::LayOutNodes(const graph::LoopAnalysis& loops) {
  const graph::Graph& graph = plan_->graph();
  where_.resize(graph.size());
  // A merge must see its inputs arrive.
  graph::NodeMap<bool> merged(graph.size(), false);
  for (graph::NodeId id : plan_->order())
    if (graph.node(id).has(TENON_OP_MERGE))
      for (const Edge& edge : graph.node(id).inputs)
        if (edge.node) merged[edge.node] = true;
  // What runs at once has more values at once: where memory is limited only kernels that say that they are worth it do.
  const Environment& env = plan_->env();
  const bool may_run_beside = env.threads != nullptr && env.threads->threads() > 1 && !env.pool->is_limited();
  int32_t rank = 0;
  for (graph::NodeId id : plan_->order()) {
    const Node& node = graph.node(id);
    NodeInfo info;
    info.rank = rank++;
    info.kind = plan_->TransferFrom(id) >= 0 ? Kind::kTransfer : KindOf(node);
    info.runs_when_dead = node.has(TENON_OP_CONTROL_TRIGGER);
    info.id = id;
    info.frame = loops.frame_of(id);
    info.node = &node;
    info.runner = plan_->runner(id).get();
    info.channel = plan_->ChannelOf(id);
    info.host_waits = info.kind == Kind::kTransfer && plan_->TransferFrom(id) != 0;
    info.is_static = info.kind == Kind::kConstant && node.controls.empty() && !merged[id];
    if (info.kind == Kind::kEnter) {
      info.entered = frames_[info.frame].child;
      info.constant_enter = BoolAttr(node, "is_constant");
      info.frame = frames_[info.frame].parent;
    }
    FrameInfo& frame = frames_[info.frame];
    info.local = frame.nodes.next_id();
    if (frame.rank < 0 && info.frame != graph::kStep) {
      FrameId outermost = info.frame;
      while (frames_[outermost].parent != graph::kStep) outermost = frames_[outermost].parent;
      if (frames_[outermost].rank < 0) frames_[outermost].rank = info.rank;
      frame.rank = frames_[outermost].rank;
    }
    if (info.kind == Kind::kExit) {
      info.exit = static_cast<int32_t>(frame.exits.size());
      frame.exits.push_back(info.local);
    }
    if (info.kind == Kind::kKernel) {
      info.call = static_cast<int32_t>(frame.kernels.size());
      frame.kernels.push_back(info.local);
      info.may_run_beside = may_run_beside && MayRunBeside(*info.runner);
    }
    info.output_count = static_cast<int32_t>(node.output_types.size());
    const FrameId onward = Onward(info);
    info.first_output = static_cast<int32_t>(frames_[onward].slots.size());
    for (int32_t k = 0; k < info.output_count; ++k) {
      const int32_t slot = AddSlot(onward);
      if (info.kind != Kind::kConstant) continue;
      const Tensor* value = &node.FindAttr("value")->tensor();
      if (const int32_t memory = plan_->MemoryOf({id, k}); memory != 0) {
        TENON_ASSIGN_OR_RETURN(Tensor there, constants_->Get(*value, memory));
        value = &device_constants_.emplace_back(std::move(there));
      }
      SlotInfo& constant = frames_[onward].slots[slot];
      constant.constant = value;
      constant.memory = plan_->MemoryOf({id, k});
    }
    where_[id] = {info.frame, info.local};
    frame.nodes.push_back(info);
  }
  return Status::Ok();
}

// Which slot each input reads, how many inputs a node waits for, and whom each output wakes.
Status DynamicPlan::Connect() {
  const graph::Graph& graph = plan_->graph();
  struct Wire {
    graph::NodeId from;
    int32_t output;  // its outputs, then its controls
    Target to;
  };
  std::vector<Wire> wires;
  for (graph::NodeId id : plan_->order()) {
    NodeInfo& info = InfoOf(id);
    FrameInfo& frame = frames_[info.frame];
    const bool merge = info.kind == Kind::kMerge;
    info.input_count = static_cast<int32_t>(info.node->inputs.size());
    info.first_input = static_cast<int32_t>(frame.input_slots.size());
    info.first_dereference = static_cast<int32_t>(frame.dereferences.size());
    for (int32_t i = 0; i < info.input_count; ++i) {
      const Edge edge = info.node->inputs[i];
      const int feed = plan_->FeedOf(edge);
      int32_t slot;
      bool counted = false;
      if (feed >= 0) {
        if (info.frame != graph::kStep)
          return Unimplemented(StrCat(info.node->Describe(), ": input ", i,
                                      " is fed inside a loop; feed the value that enters the loop"));
        slot = feed;
      } else if (edge.node && Runs(edge.node)) {
        const NodeInfo& source = InfoOf(edge.node);
        slot = source.first_output + edge.index;
        counted = !source.is_static;
      } else {
        return Internal(StrCat(info.node->Describe(), ": input ", i, " has no producer in the plan"));
      }
      ++frame.slots[slot].uses;
      const DType type = graph.TypeOf(edge);
      if (feed < 0 && IsRef(type) && !IsRef(info.node->input_types[i])) {
        const int32_t to = AddSlot(info.frame);
        frame.dereferences.push_back({i, slot, to, plan_->MemoryOf(edge), info.node->input_types[i]});
        ++info.dereference_count;
        slot = to;
      }
      frame.input_slots.push_back(slot);
      if (counted) {
        wires.push_back({edge.node, edge.index, {info.local, merge ? i : Target::kPlain}});
        if (!merge) ++info.pending;
      } else if (merge) {
        fed_merges_.push_back({info.local, i});
      }
    }
    for (graph::NodeId control : info.node->controls) {
      if (!Runs(control) || InfoOf(control).is_static) continue;
      wires.push_back({control,
                       static_cast<int32_t>(InfoOf(control).output_count),
                       {info.local, merge ? Target::kMergeControl : Target::kPlain}});
      ++info.pending;
    }
    if (const graph::NodeId wait = plan_->WaitOf(id); wait && Runs(wait) && !InfoOf(wait).is_static) {
      wires.push_back({wait, static_cast<int32_t>(InfoOf(wait).output_count), {info.local, Target::kPlain}});
      ++info.pending;
    }
    frame.initial.push_back({info.pending, 0, -1, 0});
    if (info.frame == graph::kStep && !info.is_static && !merge && info.pending == 0)
      frame.sources.push_back(info.local);
  }
  // Stable, so that targets stay in topological order.
  std::stable_sort(wires.begin(), wires.end(), [](const Wire& a, const Wire& b) {
    return a.from != b.from ? a.from < b.from : a.output < b.output;
  });
  size_t at = 0;
  std::vector<graph::NodeId> ids(plan_->order());
  std::sort(ids.begin(), ids.end());
  for (graph::NodeId id : ids) {
    NodeInfo& info = InfoOf(id);
    info.first_range = static_cast<int32_t>(ranges_.size());
    for (int32_t output = 0; output <= info.output_count; ++output) {
      ranges_.push_back(static_cast<int32_t>(targets_.size()));
      for (; at < wires.size() && wires[at].from == id && wires[at].output == output; ++at)
        targets_.push_back(wires[at].to);
    }
    ranges_.push_back(static_cast<int32_t>(targets_.size()));
  }
  return Status::Ok();
}

Status DynamicPlan::FindFetches() {
  std::vector<std::pair<graph::NodeId, int32_t>> of_node;  // and the number of the fetch
  for (const Edge& edge : plan_->fetches()) {
    Fetch fetch;
    if (const int feed = plan_->FeedOf(edge); feed >= 0) {
      fetch = {feed, true};
    } else {
      const NodeInfo& info = InfoOf(edge.node);
      if (Onward(info) != graph::kStep)
        return InvalidArgument(
            StrCat(info.node->Describe(), " is inside a loop and cannot be fetched; fetch what leaves the loop"));
      fetch = {info.first_output + edge.index, info.is_static};
      if (!info.is_static) of_node.emplace_back(edge.node, static_cast<int32_t>(fetches_.size()));
    }
    fetches_.push_back(fetch);
  }
  std::sort(of_node.begin(), of_node.end());
  for (const auto& [id, fetch] : of_node) {
    NodeInfo& info = InfoOf(id);
    if (info.fetch_count++ == 0) info.first_fetch = static_cast<int32_t>(fetch_order_.size());
    fetch_order_.push_back(fetch);
  }
  return Status::Ok();
}

}  // namespace tenon::exec
