// SPDX-License-Identifier: Apache-2.0
// Partition: one graph a device, of a graph whose nodes have devices.
//
// Where a value is made on one device and read on another, there is a channel: a send in the part that makes it and a
// receive in the part that reads it, one pair for each (value, source, destination), whatever the number of readers. A
// control edge is a channel for a value without bytes. What costs less to have twice than to send is repeated: small
// constants, and the Enter, NextIteration and loop condition of a value that crosses there. A fed value is fed to each
// part that reads it.
//
// Loops. A loop whose nodes stand on several devices runs on each of them: the part with the condition sends it to the
// others, once a turn. There a small machine of an Enter, Merge, Switch and NextIteration, which carries one bool that
// nobody reads, turns by what it is told, and starts the receives of each turn by control edges: those of the body only
// in turns for which the condition holds. So participants agree on the turns, and a value's key is (channel, turns of
// the loops around it).
//
// Order. The nodes of a part have ids in the order in which they can run one after the other, receives just before
// their first reader and sends right after what they send: parts that run so never wait for one another in a circle.
//
// Pure; near-linear in nodes and edges.
#ifndef TENON_CORE_PARTITION_PARTITION_H_
#define TENON_CORE_PARTITION_PARTITION_H_

#include <functional>
#include <string>
#include <vector>

#include "core/partition/parts.h"

namespace tenon::partition {

struct PartitionRequest {
  const graph::Graph* graph = nullptr;
  std::vector<graph::NodeId> order;  // the nodes to take, topological
  std::vector<graph::Edge> feeds, fetches;
  std::vector<graph::NodeId> targets;
  std::string default_device;      // of nodes without one
  // The part that a device belongs to, by name; empty: each device is a part. Nodes keep their devices.
  std::function<std::string(const std::string& device)> part_of;
  uint64_t repeat_bytes = 65536;   // constants up to this are repeated
  // Tells a device from an earlier one of the same name; empty: 1 for all.
  std::function<int64_t(const std::string& device)> incarnation;
};

// INVALID_ARGUMENT: a reference or a handle of a resource would cross. UNIMPLEMENTED: a loop over several devices
// without one condition, or more than kMaxDepth loops around a value that crosses.
Result<Partitioned> Partition(const PartitionRequest& request);

// The whole graph again, from the parts alone: the nodes that were taken, in the order of their ids.
Result<graph::Graph> Merge(const Partitioned& partitioned);

}  // namespace tenon::partition

#endif  // TENON_CORE_PARTITION_PARTITION_H_
