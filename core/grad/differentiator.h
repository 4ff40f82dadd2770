// SPDX-License-Identifier: Apache-2.0
// Differentiator: walks a graph back from the ys to the xs, node by node and loop by loop, and gathers what arrives at
// the xs.
#ifndef TENON_CORE_GRAD_DIFFERENTIATOR_H_
#define TENON_CORE_GRAD_DIFFERENTIATOR_H_

#include <map>
#include <vector>

#include "core/grad/loop_gradient.h"
#include "core/grad/node_gradient.h"

namespace tenon::grad {

class Differentiator {
 public:
  // All outlive it.
  Differentiator(graph::Builder* builder, ForwardGraph* forward, const OwnGradients* own,
                 const std::vector<graph::Edge>& ys, const std::vector<graph::Edge>& xs);

  // Of the xs. initial: of the ys; empty: ones.
  Result<std::vector<tenon_gradient>> Run(const std::vector<graph::Edge>& initial);

 private:
  Status CheckEnds() const;
  Status Seed(const std::vector<graph::Edge>& initial, Arrived* arrived);
  Status Walk(BackwardLoop* back, Arrived* arrived);
  Status WalkItems(BackwardLoop* back, Arrived* arrived);
  // Of what one loop pushed and another one popped: what arrives at the pops is pushed, and popped for the pushes.
  Status WalkPop(graph::NodeId id, BackwardLoop* back, Arrived* arrived);
  Status WalkPush(graph::NodeId id, BackwardLoop* back, Arrived* arrived);
  bool PushesHandle(graph::NodeId id) const;
  // By which a push's or a pop's handle comes into its loop, and into the loops around it.
  Result<std::vector<graph::NodeId>> EntersOfHandle(graph::NodeId id, const std::vector<graph::NodeId>& others,
                                                    const BackwardLoop* back) const;
  bool IsGate(const graph::Node& node) const;
  Status PassGate(const graph::Node& node, Arrived* arrived);
  Status WalkItem(graph::NodeId id, BackwardLoop* back, Arrived* arrived);
  Status WalkNode(graph::NodeId id, BackwardLoop* back, Arrived* arrived);
  // Nodes from `first` on, which were added for `node`, ask for its device where it asks for one.
  void PlaceBeside(graph::NodeId first, graph::NodeId node);
  // All that arrived at an edge, summed beside the node that it comes from.
  Result<tenon_gradient> Total(Arrived* arrived, const graph::Edge& edge);
  // Whether a node is a part of a loop's form, and so has no gradient by itself.
  bool IsOfLoop(const graph::Node& node) const;
  bool LeadsToX(graph::Edge edge) const;

  graph::Builder* builder_;
  graph::Graph& graph_;
  const ForwardGraph& forward_;
  const std::vector<graph::Edge>& ys_;
  const std::vector<graph::Edge>& xs_;
  Stacks stacks_;
  Between between_;
  Sums sums_;
  ForwardValues values_;
  NodeGradient node_gradient_;
  LoopGradient::Parts parts_;
  std::map<graph::NodeId, DType> type_of_gradient_;  // of a push whose value's gradient lies on a stack
};

}  // namespace tenon::grad

#endif  // TENON_CORE_GRAD_DIFFERENTIATOR_H_
