// SPDX-License-Identifier: Apache-2.0
#include "core/partition/deadness.h"

#include <algorithm>

#include "core/graph/graph.h"
#include "core/graph/loop_analysis.h"

namespace tenon::partition {

using graph::Edge;
using graph::Frame;
using graph::Node;

Deadness::Deadness(const graph::Graph& graph, const std::vector<graph::NodeId>& order, const graph::LoopAnalysis& loops,
                   const graph::BranchAnalysis::IsFed& is_fed)
    : graph_(graph), loops_(loops), is_fed_(is_fed), branches_(graph::BranchAnalysis::Run(graph, order, loops, is_fed)),
      dead_(graph.size()), dead_loops_(loops.frames().size()), turn_switch_(dead_.size()), variable_(dead_.size()) {
  for (const Frame& frame : loops.frames()) {
    if (!frame.structured) continue;
    for (const graph::LoopVariable& variable : frame.variables) {
      variable_[variable.merge] = true;
      if (variable.switch_node) turn_switch_[variable.switch_node] = true;
    }
    for (graph::NodeId gate : frame.gates) turn_switch_[gate] = true;
  }
  // Once more until nothing new is found: an Enter may come after what leaves its loop.
  while (Pass(order)) {
  }
}

bool Deadness::Pass(const std::vector<graph::NodeId>& order) {
  bool found = false;
  const auto note = [&found](std::vector<bool>::reference bit, bool dead) {
    found = found || (dead && !bit);
    bit = bit || dead;
  };
  for (graph::NodeId id : order) {
    const Node& node = graph_.node(id);
    note(dead_[id], Find(node));
    if (!node.has(TENON_OP_ENTER)) continue;
    const graph::FrameId frame = loops_.frame_of(id), parent = loops_.frame(frame).parent;
    note(dead_loops_[frame], dead_loops_[parent] || dead_[id]);
  }
  return found;
}

bool Deadness::Find(const Node& node) const {
  if (node.has(TENON_OP_CONTROL_TRIGGER) || variable_[node.id]) return false;
  const graph::FrameId frame = loops_.frame_of(node.id);
  if (node.has(TENON_OP_EXIT)) return !loops_.frame(frame).structured || dead_loops_[frame];
  const bool control = std::any_of(node.controls.begin(), node.controls.end(), [this](graph::NodeId id) {
    return InTurn({id, -1});
  });
  if (control) return true;
  if (node.has(TENON_OP_MERGE)) return FindMerge(node);
  return std::any_of(node.inputs.begin(), node.inputs.end(), [this](const Edge& edge) { return InTurn(edge); });
}

// Of the two sides of one conditional, one is alive. Where the graph has conditionals that do not nest, regions do not
// say all.
bool Deadness::FindMerge(const Node& node) const {
  if (branches_.why_not().empty() && branches_.FindMerge(node.id) != nullptr)
    return branches_.region_of(node.id) != graph::kEverywhere;
  return std::all_of(node.inputs.begin(), node.inputs.end(), [this](const Edge& edge) { return InTurn(edge); });
}

bool Deadness::InTurn(Edge edge) const {
  if (!edge.node || !loops_.frame_of(edge.node) || (edge.index >= 0 && is_fed_(edge))) return false;
  const Node& node = graph_.node(edge.node);
  if (node.has(TENON_OP_ENTER)) return false;  // its loop may be dead as a whole
  if (node.has(TENON_OP_SWITCH) && edge.index >= 0) {
    if (!turn_switch_[edge.node]) return true;
    if (edge.index == 0) return true;
  }
  return dead_[edge.node];
}

bool Deadness::MayBeDead(Edge edge) const {
  const graph::FrameId frame = FrameOf(edge);
  const bool known = frame == graph::kStep || loops_.frame(frame).structured;
  return InTurn(edge) || dead_loops_[frame] || !known;
}

bool Deadness::IsOfBody(Edge edge) const {
  const Frame& frame = loops_.frame(FrameOf(edge));
  if (!frame.structured) return false;
  return frame.body.contains(edge.node) || (turn_switch_[edge.node] && edge.index == 1);
}

graph::FrameId Deadness::FrameOf(Edge edge) const {
  const graph::FrameId frame = loops_.frame_of(edge.node);
  if (frame > graph::kStep && graph_.node(edge.node).has(TENON_OP_EXIT)) return loops_.frame(frame).parent;
  return std::max(frame, graph::kStep);
}

}  // namespace tenon::partition
