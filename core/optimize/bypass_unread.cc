// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <vector>

#include "core/graph/graph.h"
#include "core/optimize/optimize.h"

namespace tenon::optimize {
namespace {

using graph::Edge;
using graph::Graph;
using graph::Node;
using graph::NodeId;

// Whether it is worth it, or hands on what may be, and has no effects.
bool HasOnlyValues(const Node& node) {
  constexpr uint64_t kNever = TENON_OP_STATEFUL | TENON_OP_SWITCH | TENON_OP_MERGE | TENON_OP_ENTER | TENON_OP_EXIT |
                              TENON_OP_NEXT_ITERATION | TENON_OP_LOOP_CONDITION | TENON_OP_CONTROL_TRIGGER |
                              TENON_OP_SEND | TENON_OP_RECV | TENON_OP_FEED | TENON_OP_ARGUMENT | TENON_OP_RESULT |
                              TENON_OP_CALL | TENON_OP_BRANCH | TENON_OP_WHILE | TENON_OP_IO | TENON_OP_WRITES_STATE;
  const bool hands_on = node.has(TENON_OP_IDENTITY);
  const auto is_state = [&](DType type) { return IsRef(type) || (type == TENON_DT_RESOURCE && !hands_on); };
  return (hands_on || node.has(TENON_OP_EXPENSIVE)) && !node.has(kNever) &&
         std::none_of(node.input_types.begin(), node.input_types.end(), is_state);
}

// What the node waits for: its inputs' nodes too.
std::vector<NodeId> Awaited(const Node& node) {
  std::vector<NodeId> all = node.controls;
  for (const Edge& edge : node.inputs)
    if (edge.node) all.push_back(edge.node);
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

class Readers {
 public:
  Readers(const Graph& graph, const Request& request)
      : graph_(graph), reads_(graph.size(), 0), waiting_(graph.size()), passed_(graph.size(), false) {
    for (const auto* edges : {&request.feeds, &request.fetches})
      for (const Edge& edge : *edges) ++reads_[edge.node];
    for (NodeId target : request.targets) ++reads_[target];
    for (NodeId id : graph.ids()) {
      for (const Edge& edge : graph.node(id).inputs)
        if (edge.node) ++reads_[edge.node];
      for (NodeId control : graph.node(id).controls) waiting_[control].push_back(id);
    }
  }
  // Whether those that wait for it may wait for what it waits for.
  bool MayBePassed(NodeId id) {
    constexpr size_t kMostEdges = 256;
    // Which side of a switch was taken, a control edge does not say, nor in which turn of a loop something is.
    constexpr uint64_t kFlow =
        TENON_OP_SWITCH | TENON_OP_MERGE | TENON_OP_ENTER | TENON_OP_EXIT | TENON_OP_NEXT_ITERATION;
    std::erase_if(waiting_[id], [this](NodeId other) { return passed_[other]; });
    if (reads_[id] != 0 || waiting_[id].empty() || !HasOnlyValues(graph_.node(id))) return false;
    const std::vector<NodeId> awaited = Awaited(graph_.node(id));
    return awaited.size() * waiting_[id].size() <= kMostEdges &&
           std::none_of(awaited.begin(), awaited.end(), [&](NodeId source) { return graph_.node(source).has(kFlow); });
  }
  // Those that waited for it wait for `awaited`.
  void Pass(NodeId id, const std::vector<NodeId>& awaited) {
    for (const Edge& edge : graph_.node(id).inputs)
      if (edge.node) --reads_[edge.node];
    for (NodeId source : awaited)
      waiting_[source].insert(waiting_[source].end(), waiting_[id].begin(), waiting_[id].end());
    passed_[id] = true;
  }
  bool passed(NodeId id) const { return passed_[id]; }

 private:
  const Graph& graph_;
  graph::NodeMap<int64_t> reads_;
  graph::NodeMap<std::vector<NodeId>>
      waiting_;  // those that were passed among them: one is looked for once, when its turn comes
  graph::NodeMap<bool> passed_;
};

}  // namespace

int64_t BypassUnread(Graph* graph, const Request& request) {
  auto order = graph->TopologicalOrder();
  if (!order.ok()) return 0;
  Readers readers(*graph, request);
  int64_t passed = 0;
  for (auto it = order->rbegin(); it != order->rend(); ++it) {
    if (!readers.MayBePassed(*it)) continue;
    readers.Pass(*it, Awaited(graph->node(*it)));
    ++passed;
  }
  if (passed == 0) return 0;
  // Once for each node, however many of those that it waits for were passed.
  graph::NodeMap<NodeId> seen_by(graph->size());
  for (NodeId id : *order) {
    std::vector<NodeId>& controls = graph->mutable_node(id).controls;
    if (readers.passed(id) ||
        std::none_of(controls.begin(), controls.end(), [&](NodeId control) { return readers.passed(control); }))
      continue;
    std::vector<NodeId> left = std::exchange(controls, {});
    while (!left.empty()) {
      const NodeId control = left.back();
      left.pop_back();
      if (seen_by[control] == id) continue;
      seen_by[control] = id;
      if (!readers.passed(control)) controls.push_back(control);
      else for (NodeId source : Awaited(graph->node(control))) left.push_back(source);
    }
    std::sort(controls.begin(), controls.end());
  }
  return passed;
}

}  // namespace tenon::optimize
