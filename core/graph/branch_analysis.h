// SPDX-License-Identifier: Apache-2.0
// Conditionals of a graph: under which predicates each node runs.
//
// A region is a chain of (predicate, side): what runs only when the predicate has that value, within the region around
// it. A switch opens the two regions of its predicate, a merge of both sides closes them. Region 0 always runs. Nodes
// of a loop have regions of their own, beginning with 0 in each turn; the loop as a whole has the region in which it is
// entered. Graphs that are no such nest (a node behind both of two independent conditionals, a merge of anything else)
// are refused with a reason; they need an executor that follows deadness.
#ifndef TENON_CORE_GRAPH_BRANCH_ANALYSIS_H_
#define TENON_CORE_GRAPH_BRANCH_ANALYSIS_H_

#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/graph/frame_id.h"
#include "core/graph/graph.h"

namespace tenon::graph {

class LoopAnalysis;

// Blocks of branches lie in each other; deeper conditionals are refused (why_not).
using RegionId = Id<struct RegionKind>;
inline constexpr RegionId kEverywhere{0};  // what no conditional rules

inline constexpr int kDeepestRegion = 256;

struct Region {
  RegionId parent;
  int depth = 0;  // region 0's is 0
  Edge predicate;  // behind identities
  int side = 0;    // 0: false, 1: true
};

// A merge of the two sides of a conditional.
struct BranchMerge {
  Edge predicate;
  int32_t input_of_side[2] = {-1, -1};
};

class BranchAnalysis {
 public:
  using IsFed = std::function<bool(Edge)>;
  // order: topological. Loops that are not structured are looked at as far as they can be.
  static BranchAnalysis Run(const Graph& graph, const std::vector<NodeId>& order, const LoopAnalysis& loops,
                            const IsFed& is_fed);

  // Empty when every conditional nests.
  const std::string& why_not() const { return why_not_; }
  const IdVector<RegionId, Region>& regions() const { return regions_; }
  RegionId region_of(NodeId node) const { return region_of_[node]; }
  RegionId region_of_loop(FrameId frame) const { return loop_regions_[frame]; }
  // Where an output has a value, in the frame that it leads to.
  RegionId RegionOf(Edge edge) const;
  // nullptr: a loop's merge, or none.
  const BranchMerge* FindMerge(NodeId node) const {
    const auto it = merges_.find(node);
    return it == merges_.end() ? nullptr : &it->second;
  }

  // The edge behind identities.
  Edge Resolve(Edge edge) const;
  // Whether region `inner` is `outer` or lies in it.
  bool IsWithin(RegionId inner, RegionId outer) const;

 private:
  BranchAnalysis(const Graph& graph, const LoopAnalysis& loops, IsFed is_fed)
      : graph_(graph), loops_(loops), is_fed_(std::move(is_fed)) {}
  void Visit(const Node& node);
  void VisitMerge(const Node& node);
  void VisitSwitch(const Node& node, RegionId region);
  RegionId RegionOfControl(NodeId node) const { return RegionOf({node, -1}); }
  RegionId Deeper(RegionId a, RegionId b, const Node& node);
  RegionId Intern(RegionId parent, Edge predicate, int side);
  void Refuse(std::string why) {
    if (why_not_.empty()) why_not_ = std::move(why);
  }

  const Graph& graph_;
  const LoopAnalysis& loops_;
  const IsFed is_fed_;
  std::string why_not_;
  IdVector<RegionId, Region> regions_{Region{}};
  std::map<std::tuple<RegionId, Edge, int>, RegionId> by_key_;
  NodeMap<RegionId> region_of_;
  IdVector<FrameId, RegionId> loop_regions_;
  NodeMap<bool> loop_nodes_;  // merges and switches of loop variables, gates
  std::map<NodeId, std::pair<RegionId, RegionId>> sides_;  // of switches: regions of output 0 and 1
  std::map<NodeId, BranchMerge> merges_;
  mutable std::map<Edge, Edge> resolved_;  // what stands behind edges that were asked for
};

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_BRANCH_ANALYSIS_H_
