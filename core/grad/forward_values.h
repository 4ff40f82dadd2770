// SPDX-License-Identifier: Apache-2.0
// ForwardValues: what stands in a backward loop for values of the forward graph: itself where there is no loop, an
// invariant for what is from further out, and for what each turn computed a stack that the forward loop pushes on and
// the backward loop pops.
#ifndef TENON_CORE_GRAD_FORWARD_VALUES_H_
#define TENON_CORE_GRAD_FORWARD_VALUES_H_

#include <unordered_set>

#include "core/grad/backward_loop.h"
#include "core/grad/forward_graph.h"
#include "core/graph/builder.h"

namespace tenon::grad {

class ForwardValues {
 public:
  // Both outlive it.
  ForwardValues(graph::Builder* builder, ForwardGraph* forward)
      : builder_(builder), graph_(builder->graph()), forward_(*forward) {}

  // Nodes from `first_new` on may read values of the forward graph; in a backward loop those become what stands for
  // them there. New nodes without inputs wait for the turn.
  Status Localize(graph::NodeId first_new, BackwardLoop* back);
  // The same for the end of a gradient, if it is of the forward graph.
  Status LocalizeEnd(tenon_output* end, BackwardLoop* back);
  // A new stack, on which each turn of the backward loop pushes the value. It is made in the frame around `around`,
  // which is the loop or one that it lies in.
  Result<graph::Edge> PushInTurns(graph::Edge value, BackwardLoop* back, BackwardLoop* around);
  // What each turn pops, of the type, from a stack of the frame around the backward loop; only in the branches in which
  // the forward value `beside` is there.
  Result<graph::Edge> PopInTurns(graph::Edge stack, DType type, graph::Edge beside, BackwardLoop* back);
  // A value of the frame around the backward loop, in its turns.
  Result<graph::Edge> EnterConstant(graph::Edge outside, BackwardLoop* back);
  // What stands in the backward loop for a value.
  Result<graph::Edge> Find(graph::Edge edge, BackwardLoop* back);

 private:
  Status LocalizeInputs(graph::NodeId id, BackwardLoop* back);
  Result<graph::Edge> Make(graph::Edge edge, graph::FrameId frame, BackwardLoop* back);
  Result<graph::Edge> ThroughStack(graph::Edge edge, BackwardLoop* back);
  Result<graph::Edge> MakeStack(DType type, const BackwardLoop& back);
  Status Push(graph::Edge edge, graph::Edge stack, const BackwardLoop& back);
  Result<graph::Edge> EnterFrom(graph::Edge outside, BackwardLoop* around, BackwardLoop* back);
  Result<graph::Edge> InBranchesOf(graph::Edge beside, graph::Edge handle, BackwardLoop* back);
  Status PushOn(graph::Edge handle, graph::Edge value, graph::NodeId turn, graph::NodeId next);
  Result<graph::Edge> Pop(graph::Edge edge, graph::Edge stack, BackwardLoop* back);

  graph::Builder* builder_;
  graph::Graph& graph_;
  ForwardGraph& forward_;
  std::unordered_set<graph::NodeId> made_by_loops_;  // new nodes that stand where they belong
};

}  // namespace tenon::grad

#endif  // TENON_CORE_GRAD_FORWARD_VALUES_H_
