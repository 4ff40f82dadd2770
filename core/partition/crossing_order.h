// SPDX-License-Identifier: Apache-2.0
// CrossingOrder: the order in which the nodes of several parts run, so that a part has its own work to do while values
// are on their way.
//
// First comes what needs no value of another part, then what needs one that has crossed once, and so on; among those
// what another part reads comes as soon as it can. So values set out early, and a part that runs its nodes one after
// the other waits for others' when nothing else is left to do.
#ifndef TENON_CORE_PARTITION_CROSSING_ORDER_H_
#define TENON_CORE_PARTITION_CROSSING_ORDER_H_

#include <functional>
#include <vector>

#include "core/graph/edge.h"

namespace tenon::partition {

// order: topological, back edges excepted; the answer is another such order of the same nodes. crosses(edge's node,
// reader): whether a value goes from one part to another there. Near-linear in nodes and edges.
std::vector<graph::NodeId> CrossingOrder(const graph::Graph& graph, const std::vector<graph::NodeId>& order,
                                         const std::function<bool(graph::NodeId from, graph::NodeId to)>& crosses);

}  // namespace tenon::partition

#endif  // TENON_CORE_PARTITION_CROSSING_ORDER_H_
