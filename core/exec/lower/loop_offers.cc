// SPDX-License-Identifier: Apache-2.0
#include "core/exec/lower/loop_offers.h"

#include <algorithm>
#include <unordered_set>

#include "core/exec/device/environment.h"
#include "core/graph/graph.h"
#include "tenon/ext/draft/compile_loop.h"

namespace tenon::exec {

using graph::Edge;
using graph::Frame;
using graph::FrameId;
using graph::LoopAnalysis;
using graph::LoopVariable;
using graph::Node;

namespace {

// Says when and where to others' values, or ties an order.
constexpr uint64_t kOnlySteers = TENON_OP_ENTER | TENON_OP_EXIT | TENON_OP_NEXT_ITERATION | TENON_OP_LOOP_CONDITION |
                                 TENON_OP_MERGE | TENON_OP_SWITCH | TENON_OP_IDENTITY | TENON_OP_NO_OP |
                                 TENON_OP_CONTROL_TRIGGER;
// Nodes of a loop that is offered: each is looked for among all its variables and inputs.
constexpr size_t kMostOffered = 4096;

}  // namespace

std::optional<OfferedLoop> LoopOffers::Of(FrameId frame, const Claims::LoopCompiler& by) const {
  if (!loops_.frame(frame).children.empty() || loops_.frame(frame).nodes.size() > kMostOffered) return std::nullopt;
  OfferedLoop loop;
  if (!Fill(frame, by, &loop) || !FindBorder(frame, *by.device, &loop)) return std::nullopt;
  return loop;
}

Edge LoopOffers::SourceInLoop(FrameId frame, Edge edge) const {
  const std::vector<graph::NodeId>& invariants = loops_.frame(frame).invariants;
  while (edge.node && !IsFromOutside(edge) && loops_.frame_of(edge.node) == frame) {
    const Node& node = graph_.node(edge.node);
    if (node.has(TENON_OP_IDENTITY)) edge = node.inputs[edge.index];
    else if (node.has(TENON_OP_LOOP_CONDITION | TENON_OP_SWITCH) ||
             std::find(invariants.begin(), invariants.end(), edge.node) != invariants.end())
      edge = node.inputs[0];
    else break;
  }
  return edge;
}

bool LoopOffers::IsFromOutside(Edge edge) const {
  return plan_.FeedOf(edge) >= 0 || facts_.Known(edge) || graph_.node(edge.node).has(TENON_OP_CONSTANT);
}

bool LoopOffers::Fill(FrameId index, const Claims::LoopCompiler& by, OfferedLoop* out) const {
  const Frame& frame = loops_.frame(index);
  const auto has_shape = [&](Edge edge) { return facts_.of(edge).shape.fully_known(); };
  for (const LoopVariable& variable : frame.variables) {
    if (!facts_.needed(variable.merge)) continue;
    const Edge current{variable.merge, 0}, initial = graph_.node(variable.enter).inputs[0],
                                           next = SourceInLoop(index, graph_.node(variable.next).inputs[0]);
    const DType dtype = graph_.TypeOf(current);
    for (const Edge edge : {initial, next})
      if (!IsPlain(graph_.TypeOf(edge)) || graph_.TypeOf(edge) != dtype || !has_shape(edge) ||
          facts_.of(edge).shape != facts_.of(current).shape)
        return false;
    const bool leaves = variable.exit && facts_.needed(variable.exit);
    out->variables.push_back({initial, current, next, leaves ? Edge{variable.exit, 0} : Edge{}});
  }
  auto items = loops_.Items(graph_, facts_.order(), index);
  if (!items.ok()) return false;
  std::vector<graph::NodeId> body;
  for (const LoopAnalysis::Item& item : *items) {
    if (!item.node) return false;
    const Node& node = graph_.node(item.node);
    if (node.has(kOnlySteers)) {
      // Other switches and merges are conditionals'; of references an identity reads.
      const auto is_variables = [&](const LoopVariable& variable) {
        return variable.merge == item.node || variable.switch_node == item.node;
      };
      const bool is_of_loop = !node.has(TENON_OP_SWITCH | TENON_OP_MERGE) ||
                              std::any_of(frame.variables.begin(), frame.variables.end(), is_variables) ||
                              std::find(frame.gates.begin(), frame.gates.end(), item.node) != frame.gates.end();
      const bool takes_references = std::any_of(node.inputs.begin(), node.inputs.end(), [&](const Edge& edge) {
        return edge.node && IsRef(graph_.TypeOf(edge));
      });
      if (!is_of_loop || takes_references || plan_.TransferFrom(item.node) >= 0) return false;
      continue;
    }
    bool is_made = node.output_types.empty();
    for (size_t k = 0; k < node.output_types.size(); ++k) {
      const Edge edge{item.node, static_cast<int32_t>(k)};
      is_made = is_made || !IsFromOutside(edge);
      if (!has_shape(edge)) return false;
    }
    if (!is_made) continue;
    if (!MayBeClaimed(plan_, item.node, by.compiler.table->priority, *by.device)) return false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Edge source = SourceInLoop(index, node.inputs[i]);
      if (IsRef(graph_.TypeOf(source)) || !has_shape(source)) return false;
      out->sources[{item.node, static_cast<int32_t>(i)}] = source;
    }
    (frame.body.contains(item.node) ? body : out->nodes).push_back(item.node);
  }
  out->condition_nodes = out->nodes.size();
  out->nodes.insert(out->nodes.end(), body.begin(), body.end());
  out->condition = SourceInLoop(index, graph_.node(frame.condition).inputs[0]);
  return !out->nodes.empty() && graph_.TypeOf(out->condition) == TENON_DT_BOOL &&
         facts_.of(out->condition).shape == Shape();
}

bool LoopOffers::FindBorder(FrameId frame, const SessionDevice& device, OfferedLoop* loop) const {
  std::unordered_set<graph::NodeId> inside(loop->nodes.begin(), loop->nodes.end());
  for (const OfferedLoop::Variable& variable : loop->variables) {
    inside.insert(variable.current.node);
    loop->inputs.push_back(variable.initial);
    if (variable.result.node) loop->outputs.push_back(variable.result);
  }
  bool all_there = true;
  const auto read = [&](Edge edge) {
    if (!IsFromOutside(edge)) {
      if (inside.contains(edge.node)) return;
      all_there = all_there && loops_.frame_of(edge.node) && !loops_.IsWithin(loops_.frame_of(edge.node), frame);
    }
    if (std::find(loop->inputs.begin() + std::ssize(loop->variables), loop->inputs.end(), edge) == loop->inputs.end())
      loop->inputs.push_back(edge);
  };
  for (const auto& [input, source] : loop->sources) read(source);
  for (const OfferedLoop::Variable& variable : loop->variables) read(variable.next);
  read(loop->condition);
  const auto lies_there = [&](Edge edge) { return plan_.MemoryOf(edge) == device.memory; };
  return all_there && !loop->outputs.empty() && std::all_of(loop->inputs.begin(), loop->inputs.end(), lies_there) &&
         std::all_of(loop->outputs.begin(), loop->outputs.end(), lies_there);
}

}  // namespace tenon::exec
