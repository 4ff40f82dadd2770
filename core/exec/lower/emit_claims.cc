// SPDX-License-Identifier: Apache-2.0
// Sets of nodes that a device's compiler took, each run as one operation.
#include <algorithm>
#include <queue>
#include <unordered_set>

#include "core/exec/lower/emitter.h"
#include "core/exec/plan/tile_program.h"
#include "core/graph/graph.h"

namespace tenon::exec {

using graph::Edge;
using graph::LoopAnalysis;
using graph::Node;

bool Emitter::HasClaims() const {
  return plan_.claims() != nullptr && !plan_.claims()->claims().empty();
}

// The claim that the node is run with; -1: none. A claim whose nodes do not run in the same loop and branch, whatever
// its compiler thought, is none.
int32_t Emitter::ClaimOf(graph::NodeId id) const {
  const int32_t claim = HasClaims() ? plan_.claims()->ClaimOf(id) : -1;
  if (claim < 0) return -1;
  whole_claims_.resize(plan_.claims()->claims().size(), -1);
  int8_t& whole = whole_claims_[claim];
  if (whole < 0) {
    const auto& nodes = plan_.claims()->claims()[claim].nodes;
    whole = std::all_of(nodes.begin(), nodes.end(), [&](graph::NodeId node) { return RunTogether(node, id); });
  }
  return whole != 0 ? claim : -1;
}

bool Emitter::RunTogether(graph::NodeId a, graph::NodeId b) const {
  const graph::FrameId frame = loops_.frame_of(a);
  if (frame != loops_.frame_of(b) || branches_.region_of(a) != branches_.region_of(b)) return false;
  const auto& body = loops_.frame(frame).body;
  return body.contains(a) == body.contains(b);
}

// The items in an order in which the nodes of a claim follow each other. A loop runs as a whole too, which a compiler
// does not know: where a claim would have to run both before and after one, it is none.
std::vector<LoopAnalysis::Item> Emitter::ClaimsAsWholes(const std::vector<LoopAnalysis::Item>& items,
                                                        graph::FrameId frame) const {
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

// stuck: claims that wait for themselves, or for such; then not all items are there.
std::vector<LoopAnalysis::Item> Emitter::InOrder(const std::vector<LoopAnalysis::Item>& items, graph::FrameId frame,
                                                 std::vector<int32_t>* stuck) const {
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

// A claim is emitted with its first node.
Status Emitter::EmitClaim(int32_t number, std::vector<Operation>* block) {
  if (!emitted_claims_.insert(number).second) return Status::Ok();
  const Claims::Claim& claim = plan_.claims()->claims()[number];
  std::vector<graph::NodeId> nodes;
  for (graph::NodeId id : claim.nodes)
    if (facts_.needed(id)) nodes.push_back(id);
  if (claim.compiler.table == nullptr) return EmitTiles(*claim.device, nodes, block);
  const Border border = BorderOf(nodes);
  std::shared_ptr<const CompiledRegion> region;
  if (border.shapes_known) {
    TENON_ASSIGN_OR_RETURN(
        region, CompileClaim(plan_, *plan_.claims(), claim, nodes, border.in, border.out, facts_.inference()));
  }
  if (region == nullptr && !claim.device->queued()) return EmitTiles(*claim.device, nodes, block);
  return EmitWhole(std::move(region), *claim.device, nodes, border, block);
}

// region: nullptr: node by node.
Status Emitter::EmitWhole(std::shared_ptr<const CompiledRegion> region, const SessionDevice& device,
                          const std::vector<graph::NodeId>& nodes, const Border& border,
                          std::vector<Operation>* block) {
  if (region != nullptr) return EmitRegion(std::move(region), device, border.in, border.out, block);
  for (graph::NodeId id : nodes) TENON_RETURN_IF_ERROR(EmitKernel(graph_.node(id), block));
  return Status::Ok();
}

// Those of one shape that follow one another are one program. What is of another shape, or has no tile function, comes
// before them, if it reads none of them; else they end there.
Status Emitter::EmitTiles(const SessionDevice& device, const std::vector<graph::NodeId>& nodes,
                          std::vector<Operation>* block) {
  std::vector<graph::NodeId> together;
  const auto close = [&]() -> Status {
    const std::vector<graph::NodeId> of_one_shape = std::exchange(together, {});
    if (of_one_shape.empty()) return Status::Ok();
    const Border border = BorderOf(of_one_shape);
    std::shared_ptr<const CompiledRegion> region;
    if (border.shapes_known && of_one_shape.size() > 1) {
      TENON_ASSIGN_OR_RETURN(region, TileProgram::Make(plan_, of_one_shape, border.in, border.out, facts_.inference()));
    }
    return EmitWhole(std::move(region), device, of_one_shape, border, block);
  };
  for (const graph::NodeId id : nodes) {
    const bool may = MayBeTiled(plan_, id);
    const Node& node = graph_.node(id);
    if (!may && together.empty()) {
      TENON_RETURN_IF_ERROR(EmitKernel(node, block));
      continue;
    }
    if (!together.empty() && (!may || facts_.of({id, 0}).shape != facts_.of({together[0], 0}).shape)) {
      const auto is_together = [&](graph::NodeId source) {
        return std::find(together.begin(), together.end(), source) != together.end();
      };
      const bool waits = std::any_of(node.inputs.begin(), node.inputs.end(),
                                     [&](const Edge& edge) { return is_together(edge.node); }) ||
                         std::any_of(node.controls.begin(), node.controls.end(), is_together);
      if (!waits) {
        TENON_RETURN_IF_ERROR(EmitKernel(node, block));
        continue;
      }
      TENON_RETURN_IF_ERROR(close());
      if (!may) {
        TENON_RETURN_IF_ERROR(EmitKernel(node, block));
        continue;
      }
    }
    together.push_back(id);
  }
  return close();
}

// What enters the nodes and what leaves them.
Emitter::Border Emitter::BorderOf(const std::vector<graph::NodeId>& nodes) {
  const auto inside = [&](graph::NodeId id) { return std::find(nodes.begin(), nodes.end(), id) != nodes.end(); };
  Border border;
  for (graph::NodeId id : nodes) {
    for (const Edge& edge : graph_.node(id).inputs) {
      const bool from_outside = plan_.FeedOf(edge) >= 0 || !inside(edge.node) || facts_.Known(edge);
      if (from_outside && std::find(border.in.begin(), border.in.end(), edge) == border.in.end())
        border.in.push_back(edge);
      border.shapes_known = border.shapes_known && facts_.of(edge).shape.fully_known();
    }
    for (size_t k = 0; k < graph_.node(id).output_types.size(); ++k) {
      const Edge edge{id, static_cast<int32_t>(k)};
      border.shapes_known = border.shapes_known && facts_.of(edge).shape.fully_known();
      if (!facts_.Known(edge) && IsReadOutside(edge, inside)) border.out.push_back(edge);
    }
  }
  return border;
}

bool Emitter::IsReadOutside(Edge edge, const std::function<bool(graph::NodeId)>& inside) {
  if (std::find(plan_.fetches().begin(), plan_.fetches().end(), edge) != plan_.fetches().end()) return true;
  if (readers_.empty()) {
    readers_.resize(graph_.size());
    for (graph::NodeId id : facts_.order())
      for (const Edge& read : graph_.node(id).inputs)
        if (read.node) readers_[read.node].emplace_back(read.index, id);
  }
  const auto& readers = readers_[edge.node];
  return std::any_of(readers.begin(), readers.end(),
                     [&](const auto& reader) { return reader.first == edge.index && !inside(reader.second); });
}

Status Emitter::EmitRegion(std::shared_ptr<const CompiledRegion> region, const SessionDevice& device,
                           const std::vector<Edge>& in, const std::vector<Edge>& out, std::vector<Operation>* block) {
  const Node& first = graph_.node(region->nodes()[0]);
  std::vector<SlotId> inputs, outputs;
  for (const Edge& edge : in) {
    TENON_ASSIGN_OR_RETURN(SlotId slot, SlotOf(edge));
    if (IsRef(code_->at(slot).dtype)) {
      TENON_ASSIGN_OR_RETURN(slot, EmitRead(slot, first, edge, block));
    }
    Use(inputs.emplace_back(slot));
  }
  QueueId queue;
  double seconds = 0;
  if (device.queued()) {
    queue = chooser_.Choose(device.first_queue, device.compute_count(), RootsOf(inputs));
    KeepForQueue(queue, device, inputs);
    for (graph::NodeId id : region->nodes()) {
      const double own = SecondsOf(graph_.node(id), device);
      seconds +=
          own - (seconds > 0 ? std::min(own, device.device->properties.launch_seconds) : 0);  // one launch for all
    }
  }
  for (const Edge& edge : out) {
    outputs.push_back(NewSlot(graph_.TypeOf(edge), facts_.of(edge).shape, Home::kArena, plan_.MemoryOf(edge)));
    SetSlot(edge, outputs.back());
  }
  if (queue) chooser_.Submit(queue, seconds, RootsOf(inputs), RootsOf(outputs));
  uint64_t& workspace = code_->workspace(queue);
  workspace = std::max(workspace, region->workspace_bytes());
  Operation& operation = Push(block, queue ? Operation::Kind::kQueued : Operation::Kind::kCompiled, first.id);
  operation.inputs = std::move(inputs);
  operation.outputs = std::move(outputs);
  operation.queue = queue;
  operation.region = std::move(region);
  return Status::Ok();
}

}  // namespace tenon::exec
