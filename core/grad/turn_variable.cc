// SPDX-License-Identifier: Apache-2.0
#include "core/grad/turn_variable.h"

#include "core/graph/graph.h"

namespace tenon::grad {

using graph::Builder;
using graph::Edge;
using graph::NodeId;

Result<NodeId> OpenVariable(Builder* builder, const graph::AttrMap& enter_attrs, Edge initial) {
  TENON_ASSIGN_OR_RETURN(const NodeId enter, builder->AddRole("enter", {initial}, enter_attrs));
  // The second input stands in until the next-iteration exists; types are the same.
  return builder->AddRole("merge", {Edge{enter, 0}, Edge{enter, 0}});
}

Result<TurnVariable> CloseVariable(Builder* builder, NodeId merge, Edge condition) {
  TENON_ASSIGN_OR_RETURN(const NodeId gate, builder->AddRole("switch", {Edge{merge, 0}, condition}));
  TENON_ASSIGN_OR_RETURN(const NodeId turn, builder->AddRole("identity", {Edge{gate, 1}}));
  TENON_ASSIGN_OR_RETURN(const NodeId exit, builder->AddRole("exit", {Edge{gate, 0}}));
  return TurnVariable{merge, {turn, 0}, {exit, 0}};
}

Status SetNext(Builder* builder, NodeId merge, Edge value) {
  TENON_ASSIGN_OR_RETURN(const NodeId next, builder->AddRole("next_iteration", {value}));
  return builder->graph().SetInput(merge, 1, {next, 0});
}

Result<Edge> ConstantIn(Builder* builder, NodeId pivot, int32_t value) {
  const std::vector<NodeId> before = builder->controls();
  builder->set_controls({pivot});
  auto edge = builder->ScalarInt32(value);
  builder->set_controls(before);
  return edge;
}

}  // namespace tenon::grad
