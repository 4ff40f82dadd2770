// SPDX-License-Identifier: Apache-2.0
// Sequence: one order of all nodes of a graph, loops as blocks, that the parts (partitions) keep too.
//
// Every node comes after what it depends on (back edges excepted). The nodes of a loop stand together; in a structured
// loop, what runs to find the condition comes before the body. Parts whose nodes run one after the other in this order,
// and wait only for what comes earlier in it, cannot wait for one another in a circle. Near-linear in nodes and edges.
#ifndef TENON_CORE_PARTITION_SEQUENCE_H_
#define TENON_CORE_PARTITION_SEQUENCE_H_

#include <vector>

#include "core/graph/loop_analysis.h"

namespace tenon::partition {

class Sequence {
 public:
  // order: the nodes, topological.
  static Result<Sequence> Make(const graph::Graph& graph, const std::vector<graph::NodeId>& order,
                               const graph::LoopAnalysis& loops);

  const std::vector<graph::NodeId>& nodes() const { return nodes_; }
  // Of a node; -1: not in the order.
  int32_t position(graph::NodeId node) const { return position_[node]; }
  // A loop's nodes stand at [begin, end).
  int32_t begin(graph::FrameId frame) const { return begin_[frame]; }
  int32_t end(graph::FrameId frame) const { return end_[frame]; }
  int depth(graph::FrameId frame) const { return depth_[frame]; }

 private:
  std::vector<graph::NodeId> nodes_;
  graph::NodeMap<int32_t> position_;
  IdVector<graph::FrameId, int32_t> begin_, end_;
  IdVector<graph::FrameId, int> depth_;
};

}  // namespace tenon::partition

#endif  // TENON_CORE_PARTITION_SEQUENCE_H_
