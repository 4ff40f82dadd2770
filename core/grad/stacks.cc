// SPDX-License-Identifier: Apache-2.0
#include "core/grad/stacks.h"

#include "core/graph/op_registry.h"

namespace tenon::grad {

using graph::Edge;
using graph::Node;
using graph::NodeId;
using graph::OpDef;

namespace {

// Handles of stacks that lie on stacks, as loops in loops have them.
constexpr int kDeepestHandle = 256;

const OpDef* OpOfRole(const graph::Graph& graph, std::string_view role) {
  const auto op = graph.registry().FindRole(role);
  return op.ok() ? *op : nullptr;
}

}  // namespace

Edge Origin(const graph::Graph& graph, Edge value) {
  // Without a merge no chain of edges comes back, but in a graph that cannot run: there it ends somewhere.
  for (size_t steps = 0; steps < static_cast<size_t>(graph.size()); ++steps) {
    const Node& node = graph.node(value.node);
    if (node.has(TENON_OP_IDENTITY) && static_cast<size_t>(value.index) < node.inputs.size())
      value = node.inputs[value.index];
    else if (node.has(TENON_OP_SWITCH)) value = node.inputs[0];
    else break;
  }
  return value;
}

Stacks::Stacks(const graph::Graph* graph)
    : graph_(*graph),
      stack_(OpOfRole(*graph, "stack")),
      push_(OpOfRole(*graph, "stack_push")),
      pop_(OpOfRole(*graph, "stack_pop")) {
  if (stack_ == nullptr || push_ == nullptr || pop_ == nullptr) return;
  Ends all;
  for (const NodeId id : graph_.ids()) {
    if (graph_.node(id).op == pop_) all.pops.push_back(id);
    if (graph_.node(id).op != push_) continue;
    all.pushes.push_back(id);
    const NodeId stack = Follow(graph_.node(id).inputs[0], [](NodeId) { return NodeId(); });
    stack_of_push_[id] = stack;
    if (stack) ends_[stack].pushes.push_back(id);
  }
  for (const NodeId pop : all.pops)
    if (const NodeId stack = StackOfPop(pop, 0)) ends_[stack].pops.push_back(pop);
  for (const auto& of_ends : {stack_of_push_, stack_of_pop_})
    for (const auto& [id, stack] : of_ends)
      if (!stack) strays_.push_back(id);
  ends_[NodeId()] = std::move(all);
}

bool Stacks::IsStray(NodeId node) const {
  return IsPush(node) ? !stack_of_push_.at(node) : IsPop(node) && !stack_of_pop_.at(node);
}

NodeId Stacks::StackOf(Edge handle) const {
  return Follow(handle, [this](NodeId pop) {
    const auto it = stack_of_pop_.find(pop);
    return it == stack_of_pop_.end() ? NodeId() : LiesOn(it->second);
  });
}

// The stack that a handle is of; what a pop gives is a handle of another one.
NodeId Stacks::Follow(Edge handle, const auto& stack_of_what_it_gives) const {
  for (size_t steps = 0; steps < static_cast<size_t>(graph_.size()); ++steps) {
    handle = Origin(graph_, handle);
    const Node& node = graph_.node(handle.node);
    if (node.op == stack_) return handle.node;
    if (node.op == pop_) return stack_of_what_it_gives(handle.node);
    if (!node.has(TENON_OP_ENTER)) break;
    handle = node.inputs[0];
  }
  return {};
}

NodeId Stacks::StackOfPop(NodeId pop, int depth) {
  const auto [it, fresh] = stack_of_pop_.emplace(pop, NodeId());
  if (!fresh || depth == kDeepestHandle) return it->second;
  const NodeId stack =
      Follow(graph_.node(pop).inputs[0], [&](NodeId outer) { return LiesOn(StackOfPop(outer, depth + 1)); });
  stack_of_pop_[pop] = stack;
  return stack;
}

// The stack whose handle is what lies on a stack of handles.
NodeId Stacks::LiesOn(NodeId stack) const {
  const auto ends = ends_.find(stack);
  if (!stack || ends == ends_.end() || ends->second.pushes.size() != 1) return {};
  return Follow(graph_.node(ends->second.pushes[0]).inputs[1], [](NodeId) { return NodeId(); });
}

}  // namespace tenon::grad
