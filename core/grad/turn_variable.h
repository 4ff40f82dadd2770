// SPDX-License-Identifier: Apache-2.0
// TurnVariable: a loop variable as gradients add it: Enter, Merge with an open back edge, Switch, Exit.
#ifndef TENON_CORE_GRAD_TURN_VARIABLE_H_
#define TENON_CORE_GRAD_TURN_VARIABLE_H_

#include "core/graph/builder.h"

namespace tenon::grad {

struct TurnVariable {
  graph::NodeId merge;
  graph::Edge in_turn;  // the switch's true side
  graph::Edge exit;
};

// Its merge, to which the condition may be made before it is closed.
Result<graph::NodeId> OpenVariable(graph::Builder* builder, const graph::AttrMap& enter_attrs, graph::Edge initial);
Result<TurnVariable> CloseVariable(graph::Builder* builder, graph::NodeId merge, graph::Edge condition);
Status SetNext(graph::Builder* builder, graph::NodeId merge, graph::Edge value);
// An int32 that waits for `pivot`, so that it belongs to the turn.
Result<graph::Edge> ConstantIn(graph::Builder* builder, graph::NodeId pivot, int32_t value);

}  // namespace tenon::grad

#endif  // TENON_CORE_GRAD_TURN_VARIABLE_H_
