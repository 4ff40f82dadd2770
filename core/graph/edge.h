// SPDX-License-Identifier: Apache-2.0
// Edge: an output of a node; what points into a graph without knowing what stands there.
#ifndef TENON_CORE_GRAPH_EDGE_H_
#define TENON_CORE_GRAPH_EDGE_H_

#include <compare>
#include <cstdint>

#include "core/base/id.h"

namespace tenon::graph {

class Graph;  // graph.h
struct Node;  // node.h

using NodeId = Id<struct NodeKind>;  // of one graph

// Something for each node of a graph.
template <typename T>
using NodeMap = IdVector<NodeId, T>;

// Output `index` of node `node`.
struct Edge {
  NodeId node;
  int32_t index = 0;
  bool operator==(const Edge&) const = default;
  auto operator<=>(const Edge&) const = default;
};

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_EDGE_H_
