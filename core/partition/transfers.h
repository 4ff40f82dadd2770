// SPDX-License-Identifier: Apache-2.0
// Transfers: where a value is made in one memory and read in another, a node that moves it.
//
// A transfer is a node of the role "identity" whose input lies in one memory and whose output in another. There is one
// for each (value, memory that wants it), whatever the number of readers; a constant is not moved but stands in each
// memory that reads it. Shapes, branches and loops are as before, since to the graph it is an identity.
#ifndef TENON_CORE_PARTITION_TRANSFERS_H_
#define TENON_CORE_PARTITION_TRANSFERS_H_

#include <functional>
#include <vector>

#include "core/base/status.h"
#include "core/graph/edge.h"

namespace tenon::partition {

// Memory 0 is the host's.
struct Memories {
  std::function<int32_t(graph::Edge edge)> of;  // where a value lies; of a reference: its variable's
  std::function<int32_t(const graph::Node& node, int32_t input)> wanted;     // where a node reads it
  std::function<bool(int32_t from, int32_t to)> direct;  // whether one copy does it; else through the host
  std::function<std::string(int32_t memory)> name;                           // device name for new nodes
};

struct AddedNode {
  graph::NodeId node;
  int32_t memory = 0;  // of its output
  int32_t from = -1;   // of its input; -1: a constant's other copy
};

// Adds what the nodes of `order` and the fetches need. fetch_memory: one a fetch, where it is wanted; fetches are moved
// to the transfers' outputs. What is fetched in a device's memory and already lies there, constants apart, is moved
// within it: the caller keeps it. A fed edge lies where `of` says.
Result<std::vector<AddedNode>> AddTransfers(graph::Graph* graph, const std::vector<graph::NodeId>& order,
                                            const std::vector<graph::Edge>& feeds, std::vector<graph::Edge>* fetches,
                                            const std::vector<int32_t>& fetch_memory, const Memories& memories);

}  // namespace tenon::partition

#endif  // TENON_CORE_PARTITION_TRANSFERS_H_
