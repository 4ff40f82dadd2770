// SPDX-License-Identifier: Apache-2.0
#include "core/partition/crossing_order.h"

#include <algorithm>
#include <cstdint>
#include <queue>
#include <tuple>

#include "core/graph/graph.h"

namespace tenon::partition {

using graph::NodeId;

std::vector<NodeId> CrossingOrder(const graph::Graph& graph, const std::vector<NodeId>& order,
                                  const std::function<bool(NodeId, NodeId)>& crosses) {
  constexpr int32_t kNone = -1;
  graph::NodeMap<int32_t> position(graph.size(), kNone);
  for (size_t i = 0; i < order.size(); ++i) position[order[i]] = static_cast<int32_t>(i);
  // By position: how often a value has crossed on its way there, at the most; whether one sets out from there; who
  // waits for it.
  std::vector<int32_t> depth(order.size(), 0), pending(order.size(), 0);
  std::vector<bool> sends(order.size(), false);
  std::vector<std::vector<int32_t>> users(order.size());
  bool any = false;
  for (size_t i = 0; i < order.size(); ++i) {
    const graph::Node& node = graph.node(order[i]);
    const auto depend = [&](NodeId from) {
      const int32_t at = from ? position[from] : kNone;
      if (at == kNone || at >= static_cast<int32_t>(i)) return;  // the second: a back edge
      const bool across = crosses(from, node.id);
      any = any || across;
      sends[static_cast<size_t>(at)] = sends[static_cast<size_t>(at)] || across;
      depth[i] = std::max(depth[i], depth[static_cast<size_t>(at)] + (across ? 1 : 0));
      ++pending[i];
      users[static_cast<size_t>(at)].push_back(static_cast<int32_t>(i));
    };
    for (const graph::Edge& edge : node.inputs) depend(edge.node);
    for (const NodeId control : node.controls) depend(control);
  }
  if (!any) return order;
  using Key = std::tuple<int32_t, bool, int32_t>;
  std::priority_queue<Key, std::vector<Key>, std::greater<>> ready;
  const auto push = [&](int32_t i) { ready.emplace(depth[static_cast<size_t>(i)], !sends[static_cast<size_t>(i)], i); };
  for (size_t i = 0; i < order.size(); ++i)
    if (pending[i] == 0) push(static_cast<int32_t>(i));
  std::vector<NodeId> out;
  out.reserve(order.size());
  while (!ready.empty()) {
    const int32_t i = std::get<2>(ready.top());
    ready.pop();
    out.push_back(order[static_cast<size_t>(i)]);
    for (const int32_t user : users[static_cast<size_t>(i)])
      if (--pending[static_cast<size_t>(user)] == 0) push(user);
  }
  return out;
}

}  // namespace tenon::partition
