// SPDX-License-Identifier: Apache-2.0
#include "core/exec/lower/facts.h"

#include <algorithm>

#include "core/exec/kernel/run_node.h"
#include "core/graph/effect.h"
#include "core/graph/graph.h"

namespace tenon::exec {

using graph::Edge;
using graph::Node;
using graph::OutputFacts;

Status Facts::Infer(const tenon_tensor_view* const* feeds, std::vector<Shape>* out_shapes) {
  for (size_t i = 0; i < plan_.feeds().size(); ++i) {
    OutputFacts facts;
    facts.shape = ShapeOf(*feeds[i]);
    out_shapes->push_back(facts.shape);
    inference_.Fix(plan_.feeds()[i], std::move(facts));
  }
  for (size_t i = 0; i < plan_.receives().size(); ++i) {
    OutputFacts facts;
    facts.shape = ShapeOf(*feeds[plan_.feeds().size() + i]);
    out_shapes->push_back(facts.shape);
    inference_.Fix({plan_.receives()[i], 0}, std::move(facts));
  }
  if (plan_.options().fold) {
    inference_.set_evaluator(
        [this](const Node& node, const std::vector<Tensor>& inputs, const std::vector<OutputFacts>&) {
          // A device's own arithmetic is not foretold by the host's.
          if (HasOwnArithmetic(node)) return Result<std::vector<Tensor>>(std::vector<Tensor>{});
          return EvaluateNode(node, inputs, plan_.env());
        });
  }
  return inference_.Run(plan_.order());
}

bool Facts::HasOwnArithmetic(const Node& node) const {
  const auto& runner = plan_.runner(node.id);
  if (runner == nullptr || runner->queued_on() == nullptr) return false;
  return std::any_of(node.output_types.begin(), node.output_types.end(), [](DType type) { return IsFloating(type); });
}

bool Facts::Known(Edge edge) const {
  const Node& node = graph_.node(edge.node);
  return plan_.FeedOf(edge) < 0 && !node.has(TENON_OP_STATEFUL) && inference_.facts(edge).value.has_value();
}

Status Facts::FindLoops() {
  // Over all nodes: a constant that is folded away may be what ties a node to its loop.
  TENON_ASSIGN_OR_RETURN(loops_, graph::LoopAnalysis::Run(graph_, plan_.order()));
  return Status::Ok();
}

void Facts::FindNeeded(const graph::BranchAnalysis& branches) {
  MarkNeeded(branches);
  for (graph::NodeId id : plan_.order())
    if (needed_[id]) needed_order_.push_back(id);
}

namespace {

// How a node is come upon. Behind a known value: by data, which nobody reads; or by a control edge somewhere, so that
// somebody waits for it.
enum Why : uint8_t { kNot, kPassed, kAwaited, kWanted };

}  // namespace

// Backwards from fetches and targets. Behind a known value only nodes with effects are still wanted; and what somebody
// waits for, if it can be told that it has run.
void Facts::MarkNeeded(const graph::BranchAnalysis& branches) {
  needed_.assign(graph_.size(), false);
  graph::NodeMap<bool> in_order(graph_.size(), false);
  graph::NodeMap<Why> found(graph_.size(), kNot);
  for (graph::NodeId id : plan_.order()) in_order[id] = true;
  std::vector<std::pair<graph::NodeId, Why>> stack;
  const auto follow = [&](Edge edge, Why why) {
    if (edge.node && plan_.FeedOf(edge) < 0)
      stack.emplace_back(edge.node, why == kWanted && Known(edge) ? kPassed : why);
  };
  // What lies in a conditional needs its predicates, though it may hang on them by what is known alone.
  IdVector<graph::RegionId, bool> followed(branches.regions().size(), false);  // with all that are around it
  const auto follow_regions = [&](graph::RegionId region) {
    for (; region > graph::kEverywhere && !followed[region]; region = branches.regions()[region].parent) {
      followed[region] = true;
      follow(branches.regions()[region].predicate, kWanted);
    }
  };
  for (const Edge& fetch : plan_.fetches()) follow(fetch, kWanted);
  for (graph::NodeId target : plan_.targets()) stack.emplace_back(target, kWanted);
  while (!stack.empty()) {
    auto [id, why] = stack.back();
    stack.pop_back();
    if (!in_order[id]) continue;
    if (graph::HasEffect(graph_.node(id)) || (why == kAwaited && !graph::OnlyGives(graph_.node(id)))) why = kWanted;
    if (found[id] >= why) continue;
    found[id] = why;
    if (why == kWanted) {
      needed_[id] = true;
      follow_regions(branches.region_of(id));
      // What lies in a loop needs its condition, for the same reason; what is sent there also one that is known, since
      // how often is not.
      const bool is_sent{plan_.ChannelOf(id)};
      for (graph::FrameId frame = loops_.frame_of(id); frame > graph::kStep; frame = loops_.frame(frame).parent) {
        follow_regions(branches.region_of_loop(frame));
        const graph::NodeId condition = loops_.frame(frame).condition;
        if (is_sent && condition) stack.emplace_back(condition, kWanted);
        else follow({condition, 0}, kWanted);
      }
      if (const graph::BranchMerge* merge = branches.FindMerge(id)) follow(merge->predicate, kWanted);
    }
    // So does a merge, which hangs on its inputs even where their values are known.
    const bool merge = graph_.node(id).has(TENON_OP_MERGE);
    for (const Edge& edge : graph_.node(id).inputs) {
      if (merge && edge.node && plan_.FeedOf(edge) < 0) stack.emplace_back(edge.node, why);
      else follow(edge, why);
    }
    for (graph::NodeId control : graph_.node(id).controls) stack.emplace_back(control, std::max(why, kAwaited));
  }
}

}  // namespace tenon::exec
