// SPDX-License-Identifier: Apache-2.0
// Branches: the conditionals around each node of a graph that is differentiated, by what the nodes' inputs are behind.
#ifndef TENON_CORE_GRAD_BRANCHES_H_
#define TENON_CORE_GRAD_BRANCHES_H_

#include <vector>

#include "core/graph/graph.h"

namespace tenon::grad {

// One side of a conditional: the predicate and the output of its switch.
struct Branch {
  graph::Edge predicate;
  int side;
  bool operator==(const Branch&) const = default;
};

class Branches {
 public:
  Branches() = default;
  // order: topological, back edges excepted. The graph outlives it, and may grow.
  Branches(const graph::Graph* graph, const std::vector<graph::NodeId>& order);
  // Around a value, outermost first; index -1: around the node.
  std::vector<Branch> Of(graph::Edge edge) const;

 private:
  std::vector<Branch> Longest(const graph::Node& node) const;

  const graph::Graph* graph_ = nullptr;
  graph::NodeMap<std::vector<Branch>> around_;
};

// A switch on a loop's condition; a merge of what enters a loop and its next turn.
bool IsLoopSwitch(const graph::Graph& graph, const graph::Node& node);
bool IsLoopMerge(const graph::Graph& graph, const graph::Node& node);

}  // namespace tenon::grad

#endif  // TENON_CORE_GRAD_BRANCHES_H_
