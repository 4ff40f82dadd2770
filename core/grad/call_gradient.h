// SPDX-License-Identifier: Apache-2.0
// Calls whose function names the function that is its gradient: the gradient is a call of that, and the call stays.
#ifndef TENON_CORE_GRAD_CALL_GRADIENT_H_
#define TENON_CORE_GRAD_CALL_GRADIENT_H_

#include <string>

#include "core/graph/graph.h"
#include "core/graph/op_def.h"

namespace tenon::grad {

// The function that the library names as the gradient of the one that the node calls; empty: there is none, or it calls none.
std::string GradientOfCall(const graph::Graph& graph, const graph::Node& node);
// Attributes of the call, or of its attribute f, that the gradient's function has too.
graph::AttrMap BoundBy(const graph::Node& call, const graph::OpDef& op);

}  // namespace tenon::grad

#endif  // TENON_CORE_GRAD_CALL_GRADIENT_H_
