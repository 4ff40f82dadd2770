// SPDX-License-Identifier: Apache-2.0
// Symbolic gradients: extends a graph with nodes that compute d(sum of ys)/d(xs).
//
// Walks back from ys to xs along the nodes that lie on a path between them, asks each op's C gradient function for the
// gradients of its inputs, and sums what arrives over several paths (one sum node for all). Indexed slices stay slices
// until a dense value is asked for. Branches and loops in frame form (Switch, Merge, Enter, Exit, NextIteration) are
// differentiated here, by trait: a branch by the dual branch, a loop by a loop that counts the turns down and pops what
// the forward loop pushed on stacks. Calls on the way become their functions' bodies, in place; but where the graph
// itself brings the gradient of a node (own_gradient.h), that is called, and a call stays. What is added for a node
// asks for the device that the node asks for.
#ifndef TENON_CORE_GRAD_GRADIENTS_H_
#define TENON_CORE_GRAD_GRADIENTS_H_

#include <memory>
#include <vector>

#include "core/graph/builder.h"
#include "tenon/op.h"

namespace tenon::grad {

// One gradient an x: NONE when no y depends on it, DENSE or SLICES otherwise. initial: gradients of the ys to begin
// with; empty: ones. The graph is unchanged on failure. New nodes are named below "gradients/".
Result<std::vector<tenon_gradient>> AddGradients(graph::Builder* builder, const std::vector<graph::Edge>& ys,
                                                 const std::vector<graph::Edge>& xs,
                                                 const std::vector<graph::Edge>& initial);

// Gradients of library functions, as functions (function_gradient.cc): what nodes with the trait GRADIENT
// (SymbolicGradient) ask for. Makes of a node with the trait GRADIENT a call: of the function that the library names as
// the gradient of its function f, or else of one that is made of f's body and added to the library. The node's inputs
// are f's arguments x, then a gradient for each result of f; its outputs are the gradients of x, zeros where no result
// depends on it. Returns the node that it was, for Graph::Restore. On failure the node is as it was.
Result<std::unique_ptr<graph::Node>> MakeGradientCall(graph::Graph* graph, graph::NodeId id);

}  // namespace tenon::grad

#endif  // TENON_CORE_GRAD_GRADIENTS_H_
