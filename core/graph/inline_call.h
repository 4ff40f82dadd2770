// SPDX-License-Identifier: Apache-2.0
// Inlining: a call of a library function becomes the function's body, in place.
#ifndef TENON_CORE_GRAPH_INLINE_CALL_H_
#define TENON_CORE_GRAPH_INLINE_CALL_H_

#include <memory>

#include "core/graph/graph.h"

namespace tenon::graph {

// Calls nested deeper than this are taken for a recursion without end.
inline constexpr int kMaxCallDepth = 64;

// The function that a node with the trait CALL calls; NOT_FOUND names it when the library has none.
Result<std::shared_ptr<const FunctionDef>> CalledFunction(const Graph& graph, const Node& call);

// Adds the body to the graph, its nodes named below the call's name, and makes the call an identity of the body's
// results (a no-op when it has none) that waits for the body's effects. So the call's users need no change. Returns the
// node that the call was, for Graph::Restore. On failure the call is as it was, but new nodes may have been added.
Result<std::unique_ptr<Node>> InlineCall(Graph* graph, int32_t call);

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_INLINE_CALL_H_
