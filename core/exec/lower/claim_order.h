// SPDX-License-Identifier: Apache-2.0
// ClaimOrder: a frame's nodes in an order in which those of each claim follow one another.
//
// A claim whose nodes do not run in the same loop and branch, whatever its compiler thought, is none. A loop runs as a
// whole too, which a compiler does not know: where a claim would have to run both before and after one, it is none.
#ifndef TENON_CORE_EXEC_LOWER_CLAIM_ORDER_H_
#define TENON_CORE_EXEC_LOWER_CLAIM_ORDER_H_

#include <vector>

#include "core/exec/lower/facts.h"
#include "core/exec/plan/claims.h"
#include "core/graph/branch_analysis.h"

namespace tenon::exec {

class ClaimOrder {
 public:
  using Items = std::vector<graph::LoopAnalysis::Item>;
  // All outlive it.
  ClaimOrder(const Plan* plan, const Facts* facts, const graph::BranchAnalysis* branches)
      : plan_(*plan), graph_(plan->graph()), facts_(*facts), loops_(facts->loops()), branches_(*branches) {}

  bool any() const { return plan_.claims() != nullptr && !plan_.claims()->claims().empty(); }
  // The claim that the node is run with; -1: none.
  int32_t ClaimOf(graph::NodeId id);
  Items AsWholes(const Items& items, graph::FrameId frame);

 private:
  bool RunTogether(graph::NodeId a, graph::NodeId b) const;
  // stuck: claims that wait for themselves, or for such; then not all items are there.
  Items InOrder(const Items& items, graph::FrameId frame, std::vector<int32_t>* stuck);

  const Plan& plan_;
  const graph::Graph& graph_;
  const Facts& facts_;
  const graph::LoopAnalysis& loops_;
  const graph::BranchAnalysis& branches_;
  std::vector<int8_t> whole_claims_;  // by claim: -1 not looked at
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_LOWER_CLAIM_ORDER_H_
