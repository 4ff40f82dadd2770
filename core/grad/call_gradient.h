// SPDX-License-Identifier: Apache-2.0
// Calls whose function names the function that is its gradient: the gradient is a call of that, and the call stays.
#ifndef TENON_CORE_GRAD_CALL_GRADIENT_H_
#define TENON_CORE_GRAD_CALL_GRADIENT_H_

#include <string>
#include <vector>

#include "core/graph/builder.h"
#include "core/graph/graph.h"

namespace tenon::grad {

// The function that the library names as the gradient of the one that the node calls; empty: there is none, or it calls none.
std::string GradientOfCall(const graph::Graph& graph, const graph::Node& node);
// A call of that, with these inputs: where the call runs, when its first input says where (TENON_OP_REMOTE). It stands first in `inputs` too.
Result<graph::NodeId> AddGradientCall(graph::Builder* builder, const graph::Node& call, const std::string& gradient, std::vector<graph::Edge> inputs);

}  // namespace tenon::grad

#endif  // TENON_CORE_GRAD_CALL_GRADIENT_H_
