// SPDX-License-Identifier: Apache-2.0
// ForwardGraph: what is known of the graph that is differentiated, before anything is added to it: order, loops,
// conditionals. Of what is added, it knows the counters and stacks that belong to the forward loops.
#ifndef TENON_CORE_GRAD_FORWARD_GRAPH_H_
#define TENON_CORE_GRAD_FORWARD_GRAPH_H_

#include <map>
#include <vector>

#include "core/grad/branches.h"
#include "core/graph/graph.h"
#include "core/graph/loop_analysis.h"

namespace tenon::grad {

class ForwardGraph {
 public:
  // The graph outlives it, and may grow.
  static Result<ForwardGraph> Of(const graph::Graph* graph);

  const std::vector<graph::NodeId>& order() const { return order_; }
  const graph::LoopAnalysis& loops() const { return loops_; }
  // Whether it is no node that was added.
  bool Has(graph::NodeId node) const { return node < end_; }
  // The frame in which a value lives; none: it is of a node that was added.
  graph::FrameId FrameOf(graph::Edge edge) const;
  std::vector<Branch> BranchesOf(graph::Edge edge) const;
  // A node that was added to the forward graph, and lives where `beside` does.
  void NoteAdded(graph::NodeId node, graph::FrameId frame, graph::Edge beside);

 private:
  explicit ForwardGraph(const graph::Graph* graph) : graph_(graph), end_(graph->next_id()) {}

  const graph::Graph* graph_;
  graph::NodeId end_;  // what is added begins here
  std::vector<graph::NodeId> order_;
  graph::LoopAnalysis loops_;
  Branches branches_;
  std::map<graph::NodeId, graph::FrameId> added_frames_;
  std::map<graph::NodeId, std::vector<Branch>> added_branches_;
};

}  // namespace tenon::grad

#endif  // TENON_CORE_GRAD_FORWARD_GRAPH_H_
