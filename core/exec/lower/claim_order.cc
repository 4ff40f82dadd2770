// SPDX-License-Identifier: Apache-2.0
#include "core/exec/lower/claim_order.h"

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "core/graph/graph.h"

namespace tenon::exec {

using graph::Edge;
using graph::LoopAnalysis;
using graph::Node;

int32_t ClaimOrder::ClaimOf(graph::NodeId id) {
  const int32_t claim = any() ? plan_.claims()->ClaimOf(id) : -1;
  if (claim < 0) return -1;
  whole_claims_.resize(plan_.claims()->claims().size(), -1);
  int8_t& whole = whole_claims_[claim];
  if (whole < 0) {
    const auto& nodes = plan_.claims()->claims()[claim].nodes;
    whole = std::all_of(nodes.begin(), nodes.end(), [&](graph::NodeId node) { return RunTogether(node, id); });
  }
  return whole != 0 ? claim : -1;
}

bool ClaimOrder::RunTogether(graph::NodeId a, graph::NodeId b) const {
  const graph::FrameId frame = loops_.frame_of(a);
  if (frame != loops_.frame_of(b) || branches_.region_of(a) != branches_.region_of(b)) return false;
  const auto& body = loops_.frame(frame).body;
  return body.contains(a) == body.contains(b);
}

std::vector<LoopAnalysis::Item> ClaimOrder::AsWholes(const std::vector<LoopAnalysis::Item>& items,
                                                        graph::FrameId frame) {
  // One at a time, as others may be stuck for it alone; of many all that are, as each look takes as long as the frame
  // is large.
  constexpr int kMostLooks = 16;
  for (int looks = 0;; ++looks) {
    std::vector<int32_t> stuck;
    std::vector<LoopAnalysis::Item> out = InOrder(items, frame, &stuck);
    if (stuck.empty()) return out;
    if (looks < kMostLooks) stuck = {*std::max_element(stuck.begin(), stuck.end())};
    for (const int32_t claim : stuck) whole_claims_[claim] = 0;
  }
}

std::vector<LoopAnalysis::Item> ClaimOrder::InOrder(const std::vector<LoopAnalysis::Item>& items, graph::FrameId frame,
                                                 std::vector<int32_t>* stuck) {
  // Items and claims by number; a loop stands for all of its nodes.
  std::unordered_map<graph::NodeId, size_t> item_of;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].node) item_of[items[i].node] = i;
    else
      for (graph::NodeId id : facts_.order())
        if (loops_.IsWithin(loops_.frame_of(id), items[i].child)) item_of[id] = i;
  }
  std::vector<size_t> whole(items.size());
  std::unordered_map<int32_t, size_t> first_of_claim;
  for (size_t i = 0; i < items.size(); ++i) {
    const int32_t claim = !items[i].node ? -1 : ClaimOf(items[i].node);
    whole[i] = claim < 0 ? i : first_of_claim.try_emplace(claim, i).first->second;
  }
  std::vector<std::vector<size_t>> members(items.size()), users(items.size());
  std::vector<int32_t> pending(items.size(), 0);
  for (size_t i = 0; i < items.size(); ++i) members[whole[i]].push_back(i);
  for (const auto& [id, item] : item_of) {
    // Through nodes that are no items: their values are known, but what they come after still comes first.
    std::vector<graph::NodeId> stack = {id};
    std::unordered_set<graph::NodeId> seen;
    const auto depend = [&, at = whole[item]](graph::NodeId source) {
      const auto it = item_of.find(source);
      if (it == item_of.end()) {
        if (!loops_.frame_of(source) || !loops_.IsWithin(loops_.frame_of(source), frame)) return;
        if (seen.insert(source).second) stack.push_back(source);
      } else if (whole[it->second] != at) {
        users[whole[it->second]].push_back(at);
        ++pending[at];
      }
    };
    while (!stack.empty()) {
      const Node& node = graph_.node(stack.back());
      stack.pop_back();
      for (const Edge& edge : node.inputs)
        if (edge.node && plan_.FeedOf(edge) < 0 && !graph::IsBackEdge(graph_.node(edge.node), node)) depend(edge.node);
      for (graph::NodeId control : node.controls) depend(control);
    }
  }
  std::vector<LoopAnalysis::Item> out;
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;  // near the old order
  for (size_t i = 0; i < items.size(); ++i)
    if (whole[i] == i && pending[i] == 0) ready.push(i);
  while (!ready.empty()) {
    const size_t at = ready.top();
    ready.pop();
    for (size_t member : members[at]) out.push_back(items[member]);
    for (size_t user : users[at])
      if (--pending[user] == 0) ready.push(user);
  }
  for (const auto& [claim, first] : first_of_claim)
    if (pending[first] > 0) stuck->push_back(claim);
  return out;
}

}  // namespace tenon::exec
