// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "core/graph/graph.h"
#include "core/graph/op_def.h"
#include "core/optimize/optimize.h"

namespace tenon::optimize {

using graph::Edge;
using graph::Graph;
using graph::Node;

Result<Graph> Prune(const Graph& graph, Request* request, const std::function<graph::NodeId(graph::NodeId)>& place) {
  const auto count = graph.size();
  graph::NodeMap<bool> keep(count, false), named(count, false);
  std::set<Edge> fed(request->feeds.begin(), request->feeds.end());
  std::vector<graph::NodeId> stack;
  const auto want = [&](graph::NodeId id) {
    if (!keep[id]) {
      keep[id] = true;
      stack.push_back(id);
    }
  };
  for (const Edge& fetch : request->fetches)
    if (!fed.contains(fetch)) want(fetch.node);
  for (graph::NodeId target : request->targets) want(target);
  while (!stack.empty()) {
    const Node& node = graph.node(stack.back());
    stack.pop_back();
    for (const Edge& edge : node.inputs)
      if (edge.node && !fed.contains(edge)) want(edge.node);
    for (graph::NodeId control : node.controls) want(control);
  }
  for (const Edge& feed : request->feeds) named[feed.node] = true;
  for (const Edge& fetch : request->fetches) named[fetch.node] = true;
  // Consumers name fed edges too.
  for (const graph::NodeId id : graph.ids())
    if (keep[id])
      for (const Edge& edge : graph.node(id).inputs)
        if (fed.contains(edge)) named[edge.node] = true;

  TENON_ASSIGN_OR_RETURN(const std::vector<graph::NodeId> order,
                         graph.TopologicalOrder([&](graph::NodeId id) { return keep[id] || named[id]; }, place));
  Graph out(&graph.registry());
  out.library() = graph.library();
  out.set_producer(graph.producer());
  graph::NodeMap<graph::NodeId> moved(count);
  struct Open {
    graph::NodeId node;
    int32_t index;
    Edge edge;
  };
  std::vector<Open> open;
  for (graph::NodeId id : order) {
    const Node& node = graph.node(id);
    if (node.has(TENON_OP_CALL) && graph.library().contains(node.op->name))
      TENON_RETURN_IF_ERROR(out.FunctionOp(node.op->name).status());
    const bool whole = keep[id];
    graph::NodeSpec spec{node.op, node.name, {}, {}, node.attrs, node.device};
    for (const Edge& edge : node.inputs) {
      // What only names a feed reads nothing, whatever else is there: it does not run.
      const graph::NodeId source = !edge.node || !whole ? graph::NodeId() : moved[edge.node];
      if (!source && edge.node && whole)
        open.push_back({out.next_id(), static_cast<int32_t>(spec.inputs.size()), edge});
      spec.inputs.push_back(!source ? Edge() : Edge{source, edge.index});
    }
    if (whole)
      for (graph::NodeId control : node.controls) spec.controls.push_back(moved[control]);
    TENON_ASSIGN_OR_RETURN(moved[id], out.Add(std::move(spec)));
  }
  for (const Open& o : open) {
    const graph::NodeId source = moved[o.edge.node];
    if (!source) return Internal(StrCat("pruning lost the producer of an input of ", out.node(o.node).Describe()));
    TENON_RETURN_IF_ERROR(out.SetInput(o.node, o.index, {source, o.edge.index}));
  }
  for (auto* edges : {&request->feeds, &request->fetches})
    for (Edge& edge : *edges) edge.node = moved[edge.node];
  for (graph::NodeId& target : request->targets) target = moved[target];
  return out;
}

}  // namespace tenon::optimize
