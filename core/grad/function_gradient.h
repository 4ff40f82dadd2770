// SPDX-License-Identifier: Apache-2.0
// Gradients of library functions, as functions: what nodes with the trait GRADIENT (SymbolicGradient) ask for.
#ifndef TENON_CORE_GRAD_FUNCTION_GRADIENT_H_
#define TENON_CORE_GRAD_FUNCTION_GRADIENT_H_

#include <memory>

#include "core/graph/graph.h"

namespace tenon::grad {

// Makes of a node with the trait GRADIENT a call: of the function that the library names as the gradient of its function f, or else of one
// that is made of f's body and added to the library. The node's inputs are f's arguments x, then a gradient for each result of f; its
// outputs are the gradients of x, zeros where no result depends on it. Returns the node that it was, for Graph::Restore. On failure the
// node is as it was.
Result<std::unique_ptr<graph::Node>> MakeGradientCall(graph::Graph* graph, int32_t id);

}  // namespace tenon::grad

#endif  // TENON_CORE_GRAD_FUNCTION_GRADIENT_H_
