// SPDX-License-Identifier: Apache-2.0
// Stacks: what a graph pushes in the turns of one loop and pops in those of another, as gradients of loops do. A pop's
// value is a push's, though no edge says so.
#ifndef TENON_CORE_GRAD_STACKS_H_
#define TENON_CORE_GRAD_STACKS_H_

#include <map>
#include <vector>

#include "core/graph/graph.h"

namespace tenon::grad {

// Where a value comes from in its frame: past nodes that give on what they take, and sides of conditionals.
graph::Edge Origin(const graph::Graph& graph, graph::Edge value);

class Stacks {
 public:
  // The graph outlives it; what is added to it later is not looked at.
  explicit Stacks(const graph::Graph* graph);

  bool IsPush(graph::NodeId node) const { return stack_of_push_.contains(node); }
  bool IsPop(graph::NodeId node) const { return stack_of_pop_.contains(node); }
  // The pops that may take what a push pushes, and the pushes that a pop may take from: of one stack, or all where it
  // is not seen which.
  const std::vector<graph::NodeId>& PopsOf(graph::NodeId push) const { return ends_.at(stack_of_push_.at(push)).pops; }
  const std::vector<graph::NodeId>& PushesOf(graph::NodeId pop) const { return ends_.at(stack_of_pop_.at(pop)).pushes; }
  // Those of which no stack is known; any push may be theirs, and any pop.
  const std::vector<graph::NodeId>& strays() const { return strays_; }
  bool IsStray(graph::NodeId node) const;
  // The node that makes the stack of a handle, none where that is not seen.
  graph::NodeId StackOf(graph::Edge handle) const;

 private:
  struct Ends {
    std::vector<graph::NodeId> pushes, pops;
  };
  graph::NodeId StackOfPop(graph::NodeId pop, int depth);
  graph::NodeId LiesOn(graph::NodeId stack) const;
  graph::NodeId Follow(graph::Edge handle, const auto& stack_of_what_it_gives) const;

  const graph::Graph& graph_;
  const graph::OpDef *stack_ = nullptr, *push_ = nullptr, *pop_ = nullptr;
  std::map<graph::NodeId, graph::NodeId> stack_of_push_, stack_of_pop_;
  std::map<graph::NodeId, Ends> ends_;  // of the stack; none: all that there are
  std::vector<graph::NodeId> strays_;
};

}  // namespace tenon::grad

#endif  // TENON_CORE_GRAD_STACKS_H_
