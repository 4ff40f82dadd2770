// SPDX-License-Identifier: Apache-2.0
#include "core/graph/branch_analysis.h"

#include "core/base/checked.h"
#include "core/graph/frame_id.h"
#include "core/graph/graph.h"
#include "core/graph/loop_analysis.h"

namespace tenon::graph {

BranchAnalysis BranchAnalysis::Run(const Graph& graph, const std::vector<NodeId>& order, const LoopAnalysis& loops,
                                   const IsFed& is_fed) {
  BranchAnalysis out(graph, loops, is_fed);
  const auto count = graph.size();
  out.region_of_.assign(count, kEverywhere);
  out.loop_nodes_.assign(count, false);
  out.loop_regions_.assign(loops.frames().size(), kEverywhere);
  for (const Frame& frame : loops.frames()) {
    for (const LoopVariable& variable : frame.variables)
      for (NodeId id : {variable.merge, variable.switch_node})
        if (id) out.loop_nodes_[id] = true;
    for (NodeId gate : frame.gates) out.loop_nodes_[gate] = true;
  }
  for (NodeId id : order) out.Visit(graph.node(id));
  return out;
}

RegionId BranchAnalysis::RegionOf(Edge edge) const {
  if (!edge.node) return kEverywhere;
  const Node& node = graph_.node(edge.node);
  const FrameId frame = loops_.frame_of(edge.node);
  if (!frame || node.has(TENON_OP_ENTER)) return kEverywhere;
  if (node.has(TENON_OP_EXIT)) return loop_regions_[frame];
  if (const auto it = sides_.find(edge.node); it != sides_.end() && edge.index >= 0)
    return edge.index == 0 ? it->second.first : it->second.second;
  return region_of_[edge.node];
}

void BranchAnalysis::Visit(const Node& node) {
  if (node.has(TENON_OP_MERGE) && !loop_nodes_[node.id]) return VisitMerge(node);
  RegionId region = kEverywhere;
  // A gate's value may stand in a conditional of the turn.
  if (!node.has(TENON_OP_CONTROL_TRIGGER) && !(loop_nodes_[node.id] && node.has(TENON_OP_MERGE))) {
    for (const Edge& edge : node.inputs)
      if (edge.node && !is_fed_(edge) && !IsBackEdge(graph_.node(edge.node), node))
        region = Deeper(region, RegionOf(edge), node);
    for (NodeId control : node.controls) region = Deeper(region, RegionOfControl(control), node);
  }
  region_of_[node.id] = region;
  if (node.has(TENON_OP_ENTER)) {
    RegionId& loop = loop_regions_[loops_.frame_of(node.id)];
    loop = Deeper(loop, region, node);
  } else if (node.has(TENON_OP_SWITCH) && !loop_nodes_[node.id]) {
    VisitSwitch(node, region);
  }
}

void BranchAnalysis::VisitSwitch(const Node& node, RegionId region) {
  if (regions_[region].depth == kDeepestRegion) {
    sides_[node.id] = {region, region};
    return Refuse(StrCat(node.Describe(), " lies in ", kDeepestRegion, " conditionals"));
  }
  const Edge predicate = Resolve(node.inputs[1]);
  const RegionId no = Intern(region, predicate, 0), yes = Intern(region, predicate, 1);
  sides_[node.id] = {no, yes};
}

void BranchAnalysis::VisitMerge(const Node& node) {
  if (node.inputs.size() != 2) return Refuse(StrCat(node.Describe(), " merges more than two values"));
  RegionId sides[2];
  for (size_t i = 0; i < 2; ++i) sides[i] = is_fed_(node.inputs[i]) ? kEverywhere : RegionOf(node.inputs[i]);
  const Region a = regions_[sides[0]], b = regions_[sides[1]];
  if (sides[0] == kEverywhere || sides[1] == kEverywhere || a.parent != b.parent || a.predicate != b.predicate ||
      a.side == b.side)
    return Refuse(StrCat(node.Describe(), " does not merge the two sides of one conditional"));
  BranchMerge& merge = merges_[node.id];
  merge.predicate = a.predicate;
  merge.input_of_side[a.side] = 0;
  merge.input_of_side[b.side] = 1;
  region_of_[node.id] = a.parent;
}

// The region of both, when one lies in the other.
RegionId BranchAnalysis::Deeper(RegionId a, RegionId b, const Node& node) {
  if (IsWithin(a, b)) return a;
  if (IsWithin(b, a)) return b;
  Refuse(StrCat(node.Describe(), " runs under two conditionals that do not nest"));
  return a;
}

bool BranchAnalysis::IsWithin(RegionId inner, RegionId outer) const {
  for (RegionId at = inner; at; at = regions_[at].parent)
    if (at == outer) return true;
  return false;
}

RegionId BranchAnalysis::Intern(RegionId parent, Edge predicate, int side) {
  const auto [it, fresh] = by_key_.emplace(std::make_tuple(parent, predicate, side), regions_.next_id());
  if (fresh) regions_.push_back({parent, regions_[parent].depth + 1, predicate, side});
  return it->second;
}

Edge BranchAnalysis::Resolve(Edge edge) const {
  std::vector<Edge> passed;
  while (!is_fed_(edge) && edge.node) {
    if (const auto known = resolved_.find(edge); known != resolved_.end()) {
      edge = known->second;
      break;
    }
    const Node& node = graph_.node(edge.node);
    if (!node.has(TENON_OP_IDENTITY) || !Within(edge.index, node.inputs.size()) ||
        loops_.frame_of(node.inputs[edge.index].node) != loops_.frame_of(edge.node) ||
        graph_.node(node.inputs[edge.index].node).has(TENON_OP_EXIT))
      break;
    passed.push_back(edge);
    edge = node.inputs[edge.index];
  }
  for (const Edge& each : passed) resolved_[each] = edge;
  return edge;
}

}  // namespace tenon::graph
