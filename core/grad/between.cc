// SPDX-License-Identifier: Apache-2.0
#include "core/grad/between.h"

#include <utility>

#include "core/graph/graph.h"

namespace tenon::grad {
namespace {

using graph::Edge;
using graph::Graph;
using graph::NodeId;

// Nodes that were reached, and those whose neighbours were not looked at yet.
struct Reached {
  explicit Reached(size_t count) : seen(count, false) {}
  void Visit(NodeId id) {
    if (seen[id]) return;
    seen[id] = true;
    open.push_back(id);
  }
  NodeId Take() {
    const NodeId id = open.back();
    open.pop_back();
    return id;
  }
  graph::NodeMap<bool> seen;
  std::vector<NodeId> open;
};

graph::NodeMap<std::vector<NodeId>> UsersOf(const Graph& graph) {
  graph::NodeMap<std::vector<NodeId>> users(graph.size());
  for (const NodeId id : graph.ids())
    for (const Edge& edge : graph.node(id).inputs)
      if (edge.node) users[edge.node].push_back(id);
  return users;
}

// The other ends of stacks: what a push pushes is what a pop takes.
class OtherEnds {
 public:
  OtherEnds(const Stacks& stacks, Reached* reached) : stacks_(stacks), reached_(*reached) {}
  void Visit(NodeId id, const std::vector<NodeId>& ends) {
    if (stacks_.IsStray(id) && std::exchange(all_, true)) return;
    for (const NodeId end : ends) reached_.Visit(end);
    if (std::exchange(strays_, true)) return;
    for (const NodeId stray : stacks_.strays())
      if (stacks_.IsPush(stray) != stacks_.IsPush(id)) reached_.Visit(stray);
  }

 private:
  const Stacks& stacks_;
  Reached& reached_;
  bool all_ = false, strays_ = false;  // whether they were visited
};

graph::NodeMap<bool> After(const Graph& graph, const Stacks& stacks, const std::vector<Edge>& xs) {
  const graph::NodeMap<std::vector<NodeId>> users = UsersOf(graph);
  Reached after(graph.size());
  for (const Edge& x : xs)
    // What uses the x itself, not the node's other outputs.
    for (NodeId user : users[x.node])
      for (const Edge& edge : graph.node(user).inputs)
        if (edge == x) after.Visit(user);
  OtherEnds pops(stacks, &after);
  while (!after.open.empty()) {
    const NodeId id = after.Take();
    if (graph.node(id).has(TENON_OP_NO_GRADIENT)) continue;
    for (NodeId user : users[id]) after.Visit(user);
    if (stacks.IsPush(id)) pops.Visit(id, stacks.PopsOf(id));
  }
  return std::move(after.seen);
}

graph::NodeMap<bool> Before(const Graph& graph, const Stacks& stacks, const std::vector<Edge>& ys) {
  Reached before(graph.size());
  for (const Edge& y : ys) before.Visit(y.node);
  OtherEnds pushes(stacks, &before);
  while (!before.open.empty()) {
    const NodeId id = before.Take();
    for (const Edge& edge : graph.node(id).inputs)
      if (edge.node) before.Visit(edge.node);
    if (stacks.IsPop(id)) pushes.Visit(id, stacks.PushesOf(id));
  }
  return std::move(before.seen);
}

}  // namespace

Between::Between(const Graph& graph, const Stacks& stacks, const std::vector<Edge>& ys, const std::vector<Edge>& xs)
    : nodes_(After(graph, stacks, xs)) {
  const graph::NodeMap<bool> before = Before(graph, stacks, ys);
  for (const NodeId id : nodes_.ids()) nodes_[id] = nodes_[id] && before[id];
}

}  // namespace tenon::grad
