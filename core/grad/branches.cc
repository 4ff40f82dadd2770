// SPDX-License-Identifier: Apache-2.0
#include "core/grad/branches.h"

#include <algorithm>
#include <utility>

namespace tenon::grad {

using graph::Edge;
using graph::Node;

bool IsLoopSwitch(const graph::Graph& graph, const Node& node) {
  return node.has(TENON_OP_SWITCH) && graph.node(node.inputs[1].node).has(TENON_OP_LOOP_CONDITION);
}

bool IsLoopMerge(const graph::Graph& graph, const Node& node) {
  return node.has(TENON_OP_MERGE) && std::any_of(node.inputs.begin(), node.inputs.end(), [&graph](const Edge& edge) {
           return graph.node(edge.node).has(TENON_OP_NEXT_ITERATION);
         });
}

Branches::Branches(const graph::Graph* graph, const std::vector<graph::NodeId>& order)
    : graph_(graph), around_(graph->size()) {
  for (graph::NodeId id : order) {
    const Node& node = graph->node(id);
    std::vector<Branch> longest = Longest(node);
    // A merge that is no loop variable ends one.
    if (node.has(TENON_OP_MERGE) && !IsLoopMerge(*graph, node) && !longest.empty()) longest.pop_back();
    around_[id] = std::move(longest);
  }
}

std::vector<Branch> Branches::Longest(const Node& node) const {
  std::vector<Branch> longest;
  const auto consider = [&](Edge edge) {
    if (!edge.node || graph::IsBackEdge(graph_->node(edge.node), node)) return;
    std::vector<Branch> around = Of(edge);
    if (around.size() > longest.size()) longest = std::move(around);
  };
  for (const Edge& edge : node.inputs) consider(edge);
  for (graph::NodeId control : node.controls) consider({control, -1});
  return longest;
}

std::vector<Branch> Branches::Of(Edge edge) const {
  const Node& node = graph_->node(edge.node);
  std::vector<Branch> out = around_[edge.node];
  if (node.has(TENON_OP_SWITCH) && !IsLoopSwitch(*graph_, node) && edge.index >= 0)
    out.push_back({node.inputs[1], edge.index});
  return out;
}

}  // namespace tenon::grad
