// SPDX-License-Identifier: Apache-2.0
// Inlining: a node that calls library functions, or that is made of other ops, becomes dataflow, in place.
//
// A call (trait CALL) becomes the function's body. A conditional (BRANCH) becomes switches, the bodies of its branches
// and merges; of several branches each is asked for in turn. A loop (WHILE) becomes a frame with the bodies of its
// condition and body; what the body gives back as it got it is a constant of the frame. Any other node becomes what its
// op's decomposition says.
#ifndef TENON_CORE_GRAPH_FUNCTION_INLINE_CALL_H_
#define TENON_CORE_GRAPH_FUNCTION_INLINE_CALL_H_

#include <memory>

#include "core/graph/function/function_body.h"
#include "core/graph/node.h"

namespace tenon::graph {

// Calls nested deeper than this are taken for a recursion without end.
inline constexpr int kMaxCallDepth = 64;

inline bool Decomposes(const Node& node) { return Decomposes(*node.op); }

// Of a node that calls functions (kCallsFunctions; gradients of functions are calls by then: grad/gradients.h) or
// decomposes: adds the bodies to the graph, their nodes named below the call's name, and makes the call an identity of
// the results (a no-op when it has none) that waits for the bodies' effects. So the call's users need no change.
// Returns the node that the call was, for Graph::Restore. On failure the call is as it was, but new nodes may have been
// added. NOT_FOUND names a function that the library does not have.
Result<std::unique_ptr<Node>> InlineCall(Graph* graph, NodeId call);

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_FUNCTION_INLINE_CALL_H_
