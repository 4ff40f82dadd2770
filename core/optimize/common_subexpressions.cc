// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>

#include "core/graph/graph.h"
#include "core/optimize/optimize.h"

namespace tenon::optimize {
namespace {

using graph::Edge;
using graph::Graph;
using graph::Node;

bool MayMerge(const Node& node) {
  constexpr uint64_t kNever = TENON_OP_STATEFUL | TENON_OP_SWITCH | TENON_OP_MERGE | TENON_OP_ENTER | TENON_OP_EXIT |
                              TENON_OP_NEXT_ITERATION | TENON_OP_LOOP_CONDITION | TENON_OP_CONTROL_TRIGGER |
                              TENON_OP_SEND | TENON_OP_RECV | TENON_OP_FEED | TENON_OP_ARGUMENT | TENON_OP_CALL |
                              TENON_OP_BRANCH | TENON_OP_WHILE | TENON_OP_IO | TENON_OP_NO_FOLD | TENON_OP_NO_OP |
                              TENON_OP_WRITES_STATE;
  if (node.has(kNever)) return false;
  for (DType type : node.input_types)
    if (IsRef(type)) return false;
  for (DType type : node.output_types)
    if (IsRef(type)) return false;
  return true;
}

// Whether it is there for gradients alone, which have been built when a step is prepared: who reads it may read what it
// passes on.
bool IsPassedBy(const Node& node) {
  return node.has(TENON_OP_IDENTITY) && node.has(TENON_OP_NO_GRADIENT) && !node.has(TENON_OP_LOOP_CONDITION) &&
         node.inputs.size() == 1 && node.inputs[0].node && node.controls.empty() && node.device.empty() &&
         !IsRef(node.input_types[0]);
}

void Mix(size_t& hash, size_t value) { hash = (hash ^ value) * 0x9E3779B97F4A7C15ull + (hash >> 31); }

size_t HashOf(const Node& node) {
  size_t hash = reinterpret_cast<size_t>(node.op);
  for (const Edge& edge : node.inputs) Mix(hash, edge.node.index() * 8191 + edge.index);
  for (graph::NodeId control : node.controls) Mix(hash, control.index() + 0x100000);
  for (const auto& [name, value] : node.attrs) Mix(hash, value.Hash());
  return hash;
}

bool Same(const Node& a, const Node& b) {
  if (a.op != b.op || a.inputs != b.inputs || a.controls != b.controls || a.device != b.device ||
      a.attrs.size() != b.attrs.size())
    return false;
  return std::equal(a.attrs.begin(), a.attrs.end(), b.attrs.begin(),
                    [](const auto& x, const auto& y) { return x.first == y.first && x.second.Equals(y.second); });
}

}  // namespace

int64_t MergeCommonSubexpressions(Graph* graph, Request* request) {
  auto order = graph->TopologicalOrder();
  if (!order.ok()) return 0;
  graph::NodeMap<bool> fed(graph->size(), false);
  for (const Edge& feed : request->feeds) fed[feed.node] = true;
  graph::NodeMap<graph::NodeId> kept(graph->size());
  for (const graph::NodeId id : graph->ids()) kept[id] = id;
  std::unordered_multimap<size_t, graph::NodeId> seen;
  graph::NodeMap<bool> passed_by(graph->size(), false);
  int64_t merged = 0;
  for (graph::NodeId id : *order) {
    Node& node = graph->mutable_node(id);
    for (Edge& edge : node.inputs) {
      if (!edge.node) continue;
      if (!fed[edge.node] && IsPassedBy(graph->node(edge.node))) {
        merged += passed_by[edge.node] ? 0 : 1;
        passed_by[edge.node] = true;
        edge = graph->node(edge.node).inputs[0];
      }
      edge.node = kept[edge.node];
    }
    for (graph::NodeId& control : node.controls) control = kept[control];
    std::sort(node.controls.begin(), node.controls.end());
    node.controls.erase(std::unique(node.controls.begin(), node.controls.end()), node.controls.end());
    if (!MayMerge(node) || fed[id]) continue;
    const size_t hash = HashOf(node);
    const auto range = seen.equal_range(hash);
    graph::NodeId twin;
    for (auto it = range.first; it != range.second && !twin; ++it)
      if (Same(graph->node(it->second), node)) twin = it->second;
    if (!twin) {
      seen.emplace(hash, id);
    } else {
      kept[id] = twin;
      ++merged;
    }
  }
  // Back edges were not rewritten in order.
  for (const graph::NodeId id : graph->ids())
    for (Edge& edge : graph->mutable_node(id).inputs)
      if (edge.node) edge.node = kept[edge.node];
  for (Edge& fetch : request->fetches) fetch.node = kept[fetch.node];
  for (graph::NodeId& target : request->targets) target = kept[target];
  return merged;
}

}  // namespace tenon::optimize
