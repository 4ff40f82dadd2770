// SPDX-License-Identifier: Apache-2.0
// Deadness: which values of a graph may be dead, known before any step.
//
// A value is dead when it lies in a branch that is not taken. Of what is in a loop it is said for a turn (iteration): a
// value of a structured loop's body that is dead only because the loop has ended is not called so, since nobody waits
// for it then. Whatever is not known to be alive counts as one that may be dead. Linear.
#ifndef TENON_CORE_PARTITION_DEADNESS_H_
#define TENON_CORE_PARTITION_DEADNESS_H_

#include <vector>

#include "core/graph/branch_analysis.h"

namespace tenon::partition {

class Deadness {
 public:
  Deadness(const graph::Graph& graph, const std::vector<graph::NodeId>& order, const graph::LoopAnalysis& loops,
           const graph::BranchAnalysis::IsFed& is_fed);

  // An output; index -1: the node's control output.
  bool MayBeDead(graph::Edge edge) const;
  // Whether a value of a structured loop is there only in turns for which the condition holds.
  bool IsOfBody(graph::Edge edge) const;
  // The frame that a value lies in: of an exit the one around its loop.
  graph::FrameId FrameOf(graph::Edge edge) const;

 private:
  bool Pass(const std::vector<graph::NodeId>& order);
  bool InTurn(graph::Edge edge) const;
  bool Find(const graph::Node& node) const;
  bool FindMerge(const graph::Node& node) const;

  const graph::Graph& graph_;
  const graph::LoopAnalysis& loops_;
  const graph::BranchAnalysis::IsFed& is_fed_;
  graph::BranchAnalysis branches_;
  graph::NodeMap<bool> dead_;         // in its turn
  IdVector<graph::FrameId, bool> dead_loops_;   // it, or one around it, may be entered by dead values
  graph::NodeMap<bool> turn_switch_;  // a switch on its structured loop's condition
  graph::NodeMap<bool> variable_;     // a merge of a structured loop's variable
};

}  // namespace tenon::partition

#endif  // TENON_CORE_PARTITION_DEADNESS_H_
