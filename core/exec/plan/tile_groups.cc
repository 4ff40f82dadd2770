// SPDX-License-Identifier: Apache-2.0
#include "core/exec/plan/tile_groups.h"

#include <algorithm>
#include <set>

#include "core/exec/kernel/node_runner.h"
#include "core/exec/plan/plan.h"
#include "core/exec/plan/tile_program.h"
#include "core/graph/graph.h"

namespace tenon::exec {

using graph::Edge;
using graph::Node;
using graph::NodeId;

namespace {

constexpr size_t kMostNodes = 64;      // of a group
constexpr size_t kMostVisited = 512;   // nodes that are looked at to see that a group stays convex
constexpr int32_t kNone = -1;

class Finder {
 public:
  Finder(const Plan& plan, const std::function<bool(NodeId)>& may)
      : plan_(plan), graph_(plan.graph()), position_(graph_.size(), kNone), group_of_(graph_.size(), kNone) {
    for (size_t i = 0; i < plan.order().size(); ++i) position_[plan.order()[i]] = static_cast<int32_t>(i);
    for (const NodeId id : plan.order())
      if (may(id) && MayBeTiled(plan, id)) Place(id);
  }

  std::vector<std::vector<NodeId>> Take() {
    std::erase_if(groups_, [](const auto& group) { return group.size() < 2; });
    for (auto& group : groups_)
      std::sort(group.begin(), group.end(), [this](NodeId a, NodeId b) { return position_[a] < position_[b]; });
    return std::move(groups_);
  }

 private:
  // Into the groups of what it reads, which become one, as far as they may.
  void Place(NodeId id) {
    group_of_[id] = static_cast<int32_t>(groups_.size());
    groups_.push_back({id});
    for (const Edge& edge : graph_.node(id).inputs) {
      const int32_t other = edge.node && plan_.FeedOf(edge) < 0 ? group_of_[edge.node] : kNone;
      const int32_t own = group_of_[id];
      if (other == kNone || other == own || groups_[other].size() + groups_[own].size() > kMostNodes) continue;
      std::vector<NodeId> joined = groups_[other];
      joined.insert(joined.end(), groups_[own].begin(), groups_[own].end());
      if (!IsConvex(joined)) continue;
      for (const NodeId member : groups_[own]) group_of_[member] = other;
      groups_[own].clear();
      groups_[other] = std::move(joined);
    }
  }

  // Backwards from what the members read outside, as far as the first of them: no member is met.
  bool IsConvex(const std::vector<NodeId>& members) const {
    const std::set<NodeId> inside(members.begin(), members.end());
    int32_t first = position_[members[0]];
    for (const NodeId id : members) first = std::min(first, position_[id]);
    std::set<NodeId> seen;
    std::vector<NodeId> stack;
    const auto visit = [&](NodeId reader) {
      const auto follow = [&](NodeId source) {
        // A back edge of a loop comes from behind.
        if (source && position_[source] > first && position_[source] < position_[reader] && !inside.contains(source) &&
            seen.insert(source).second)
          stack.push_back(source);
      };
      for (const Edge& edge : graph_.node(reader).inputs)
        if (plan_.FeedOf(edge) < 0) follow(edge.node);
      for (const NodeId control : graph_.node(reader).controls) follow(control);
    };
    for (const NodeId id : members) visit(id);
    while (!stack.empty()) {
      if (seen.size() > kMostVisited) return false;
      const NodeId id = stack.back();
      stack.pop_back();
      const auto reads_member = [&](NodeId source) {
        return source && inside.contains(source) && position_[source] < position_[id];
      };
      const Node& node = graph_.node(id);
      for (const Edge& edge : node.inputs)
        if (plan_.FeedOf(edge) < 0 && reads_member(edge.node)) return false;
      if (std::any_of(node.controls.begin(), node.controls.end(), reads_member)) return false;
      visit(id);
    }
    return true;
  }

  const Plan& plan_;
  const graph::Graph& graph_;
  graph::NodeMap<int32_t> position_, group_of_;  // in the plan's order
  std::vector<std::vector<NodeId>> groups_;      // some empty: they went into others
};

}  // namespace

std::vector<std::vector<NodeId>> FindTileGroups(const Plan& plan, const std::function<bool(NodeId)>& may) {
  return Finder(plan, may).Take();
}

}  // namespace tenon::exec
