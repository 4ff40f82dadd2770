// SPDX-License-Identifier: Apache-2.0
// Loops of a graph: which frame each node runs in, and which frames are structured enough to run as straight code
// (conditionals inside are looked at elsewhere: branch_analysis.h).
#ifndef TENON_CORE_GRAPH_LOOP_ANALYSIS_H_
#define TENON_CORE_GRAPH_LOOP_ANALYSIS_H_

#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/base/status.h"
#include "core/graph/edge.h"
#include "core/graph/frame_id.h"

namespace tenon::graph {

struct LoopVariable {
  NodeId enter;
  NodeId merge;
  NodeId switch_node;  // -1: not switched (then it is only read by the condition)
  NodeId next;
  NodeId exit;         // -1: its last value is not used
};

// Walks over loops go into each other; so loops may not lie in each other without end.

inline constexpr int kDeepestLoop = 256;

struct Frame {
  FrameId parent;
  int depth = 0;  // the step's 0
  std::string name;
  std::vector<NodeId> nodes;   // without those of child frames
  std::vector<NodeId> enters;  // of this frame
  std::vector<FrameId> children;
  // Filled for structured frames.
  bool structured = false;
  std::string why_not;
  NodeId condition;  // the loop-condition node
  std::vector<LoopVariable> variables;
  std::vector<NodeId> invariants;  // constant enters
  std::vector<NodeId> gates;       // switches on the condition of what is no loop variable: for turns alone
  std::unordered_set<NodeId> body;  // nodes, those of child frames too, that run only when the condition holds
};

// An Enter whose value is the same in all turns: it is there in each of them, whether or not the loop goes on.
bool IsConstantEnter(const Node& node);

class LoopAnalysis {
 public:
  // Frame 0 is the step itself. INVALID_ARGUMENT when frames do not nest (a value enters a loop without an Enter),
  // RESOURCE_EXHAUSTED when they are deeper than kDeepestLoop.
  static Result<LoopAnalysis> Run(const Graph& graph, const std::vector<NodeId>& order);

  const IdVector<FrameId, Frame>& frames() const { return frames_; }
  FrameId frame_of(NodeId node) const { return frame_of_[node]; }
  bool has_loops() const { return frames_.size() > 1; }
  // Whether `inner` is `outer` or nested in it.
  const Frame& frame(FrameId id) const { return frames_[id]; }
  bool IsWithin(FrameId inner, FrameId outer) const;

  // What a frame consists of, in an order in which everything comes after what it depends on: its own nodes, and its
  // child loops as wholes.
  struct Item {
    NodeId node;
    FrameId child;  // when node is none
  };
  Result<std::vector<Item>> Items(const Graph& graph, const std::vector<NodeId>& order, FrameId frame) const;

 private:
  void Structure(const Graph& graph, const std::vector<NodeId>& order, FrameId frame);

  IdVector<FrameId, Frame> frames_;
  NodeMap<FrameId> frame_of_;  // none: not in the order
};

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_LOOP_ANALYSIS_H_
