// SPDX-License-Identifier: Apache-2.0
// Facts: what is known of a plan's values for the shapes of some feeds, and which nodes must run because it is not.
#ifndef TENON_CORE_EXEC_LOWER_FACTS_H_
#define TENON_CORE_EXEC_LOWER_FACTS_H_

#include <vector>

#include "core/exec/plan/plan.h"
#include "core/graph/branch_analysis.h"
#include "core/graph/loop_analysis.h"
#include "core/graph/shape_inference.h"

namespace tenon::exec {

class Facts {
 public:
  // The plan outlives it.
  explicit Facts(const Plan* plan) : plan_(*plan), graph_(plan->graph()), inference_(&plan->graph()) {}

  // Infers and folds. An error: shapes that do not fit, maybe in a branch that these feeds do not take. feeds: as
  // Bindings::Bind takes them; their shapes go to out_shapes.
  Status Infer(const tenon_tensor_view* const* feeds, std::vector<Shape>* out_shapes);
  // Afterwards: the loops, then, with the conditionals in them, what is needed.
  Status FindLoops();
  void FindNeeded(const graph::BranchAnalysis& branches);

  const graph::OutputFacts& of(graph::Edge edge) const { return inference_.facts(edge); }
  const graph::ShapeInference& inference() const { return inference_; }
  const graph::LoopAnalysis& loops() const { return loops_; }
  // Whether an edge's value stands in the plan, so that its producer need not run.
  bool Known(graph::Edge edge) const;
  bool needed(graph::NodeId node) const { return needed_[node]; }
  // The nodes that are needed, in the plan's order.
  const std::vector<graph::NodeId>& order() const { return needed_order_; }
  uint64_t folded() const { return static_cast<uint64_t>(inference_.evaluated()); }

 private:
  bool HasOwnArithmetic(const graph::Node& node) const;
  void MarkNeeded(const graph::BranchAnalysis& branches);

  const Plan& plan_;
  const graph::Graph& graph_;
  graph::ShapeInference inference_;
  graph::LoopAnalysis loops_;
  graph::NodeMap<bool> needed_;
  std::vector<graph::NodeId> needed_order_;
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_LOWER_FACTS_H_
