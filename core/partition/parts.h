// SPDX-License-Identifier: Apache-2.0
// A placed graph as the parts (partitions) that it became, one for each device, and the channels between them.
#ifndef TENON_CORE_PARTITION_PARTS_H_
#define TENON_CORE_PARTITION_PARTS_H_

#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/partition/channel_id.h"

namespace tenon::partition {

inline constexpr int32_t kMaxDepth = 6;  // loops around a value that crosses

struct Channel {
  std::string name;        // of the value: attribute tensor_name of its send and receive
  graph::Edge value;       // of the whole graph; index -1: a control edge
  int32_t from = -1, to = -1;  // parts
  graph::NodeId send, recv;  // nodes of them
  int32_t depth = 0;       // loops around it
  bool may_be_dead = false;  // else whoever waits for it gets a live value
};

struct Part {
  explicit Part(const graph::OpRegistry* registry) : graph(registry) {}
  std::string device;  // or what part_of gave
  graph::Graph graph;
  // The step's feeds and fetches that are this part's, and their numbers among all.
  std::vector<graph::Edge> feeds, fetches;
  std::vector<int32_t> feed_numbers, fetch_numbers;
  std::vector<graph::NodeId> targets;   // all sends too
  // By node.
  graph::NodeMap<graph::NodeId> origins;  // the node of the whole graph that it is, or repeats; none: made here
  graph::NodeMap<bool> repeats;      // its origin stands in another part
  graph::NodeMap<ChannelId> channels;  // of a send or receive; none: it is another
  graph::NodeMap<bool> may_be_dead;  // false: it surely runs, in each turn of its loop
};

struct Partitioned {
  std::vector<Part> parts;  // the devices in the order of their first nodes
  IdVector<ChannelId, Channel> channels;
  std::vector<graph::Edge> feeds, fetches;  // of the whole graph
};

}  // namespace tenon::partition

#endif  // TENON_CORE_PARTITION_PARTS_H_
