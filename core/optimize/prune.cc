// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "core/optimize/optimize.h"

namespace tenon::optimize {

using graph::Edge;
using graph::Graph;
using graph::Node;

Result<Graph> Prune(const Graph& graph, Request* request) {
  const auto count = static_cast<size_t>(graph.size());
  std::vector<bool> keep(count, false), named(count, false);
  std::set<Edge> fed(request->feeds.begin(), request->feeds.end());
  std::vector<int32_t> stack;
  const auto want = [&](int32_t id) {
    if (!keep[static_cast<size_t>(id)]) {
      keep[static_cast<size_t>(id)] = true;
      stack.push_back(id);
    }
  };
  for (const Edge& fetch : request->fetches)
    if (!fed.contains(fetch)) want(fetch.node);
  for (int32_t target : request->targets) want(target);
  while (!stack.empty()) {
    const Node& node = graph.node(stack.back());
    stack.pop_back();
    for (const Edge& edge : node.inputs)
      if (edge.node >= 0 && !fed.contains(edge)) want(edge.node);
    for (int32_t control : node.controls) want(control);
  }
  for (const Edge& feed : request->feeds) named[static_cast<size_t>(feed.node)] = true;
  for (const Edge& fetch : request->fetches) named[static_cast<size_t>(fetch.node)] = true;
  // Consumers name fed edges too.
  for (size_t id = 0; id < count; ++id)
    if (keep[id])
      for (const Edge& edge : graph.node(static_cast<int32_t>(id)).inputs)
        if (fed.contains(edge)) named[static_cast<size_t>(edge.node)] = true;

  TENON_ASSIGN_OR_RETURN(const std::vector<int32_t> order,
                         graph.TopologicalOrder([&](int32_t id) { return keep[static_cast<size_t>(id)] || named[static_cast<size_t>(id)]; }));
  Graph out(&graph.registry());
  out.library() = graph.library();
  out.set_producer(graph.producer());
  std::vector<int32_t> moved(count, -1);
  struct Open {
    int32_t node, index;
    Edge edge;
  };
  std::vector<Open> open;
  for (int32_t id : order) {
    const Node& node = graph.node(id);
    if (node.has(TENON_OP_CALL) && graph.library().contains(node.op->name)) TENON_RETURN_IF_ERROR(out.FunctionOp(node.op->name).status());
    const bool whole = keep[static_cast<size_t>(id)];
    graph::NodeSpec spec{node.op, node.name, {}, {}, node.attrs, node.device};
    for (const Edge& edge : node.inputs) {
      const int32_t source = edge.node < 0 ? -1 : moved[static_cast<size_t>(edge.node)];
      if (source < 0 && edge.node >= 0 && whole) open.push_back({out.size(), static_cast<int32_t>(spec.inputs.size()), edge});
      spec.inputs.push_back(source < 0 ? Edge{-1, 0} : Edge{source, edge.index});
    }
    if (whole)
      for (int32_t control : node.controls) spec.controls.push_back(moved[static_cast<size_t>(control)]);
    TENON_ASSIGN_OR_RETURN(moved[static_cast<size_t>(id)], out.Add(std::move(spec)));
  }
  for (const Open& o : open) {
    const int32_t source = moved[static_cast<size_t>(o.edge.node)];
    if (source < 0) return Internal(StrCat("pruning lost the producer of an input of ", out.node(o.node).Describe()));
    TENON_RETURN_IF_ERROR(out.SetInput(o.node, o.index, {source, o.edge.index}));
  }
  for (auto* edges : {&request->feeds, &request->fetches})
    for (Edge& edge : *edges) edge.node = moved[static_cast<size_t>(edge.node)];
  for (int32_t& target : request->targets) target = moved[static_cast<size_t>(target)];
  return out;
}

}  // namespace tenon::optimize
