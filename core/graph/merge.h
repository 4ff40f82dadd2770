// SPDX-License-Identifier: Apache-2.0
// Merges one graph into another.
#ifndef TENON_CORE_GRAPH_MERGE_H_
#define TENON_CORE_GRAPH_MERGE_H_

#include "core/base/status.h"
#include "core/graph/edge.h"

namespace tenon::graph {

// Adds the nodes of `from` whose names `to` does not know, and its functions. A call that `to` has becomes dataflow
// where it did in `from`. ALREADY_EXISTS: `to` has a node of that name with another op, or another function of that
// name. After an error `to` has the nodes and functions that it had.
Status Merge(const Graph& from, Graph* to);

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_MERGE_H_
