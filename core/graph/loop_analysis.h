// SPDX-License-Identifier: Apache-2.0
// Loops of a graph: which frame each node runs in, and which frames are structured enough to run as straight code
// (conditionals inside are looked at elsewhere: branch_analysis.h).
#ifndef TENON_CORE_GRAPH_LOOP_ANALYSIS_H_
#define TENON_CORE_GRAPH_LOOP_ANALYSIS_H_

#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/graph/graph.h"

namespace tenon::graph {

struct LoopVariable {
  int32_t enter = -1;
  int32_t merge = -1;
  int32_t switch_node = -1;  // -1: not switched (then it is only read by the condition)
  int32_t next = -1;
  int32_t exit = -1;         // -1: its last value is not used
};

// Walks over loops go into each other; so loops may not lie in each other without end.
inline constexpr int kDeepestLoop = 256;

struct Frame {
  int parent = -1;
  int depth = 0;  // the step's 0
  std::string name;
  std::vector<int32_t> nodes;   // without those of child frames
  std::vector<int32_t> enters;  // of this frame
  std::vector<int> children;
  // Filled for structured frames.
  bool structured = false;
  std::string why_not;
  int32_t condition = -1;  // the loop-condition node
  std::vector<LoopVariable> variables;
  std::vector<int32_t> invariants;  // constant enters
  std::vector<int32_t> gates;       // switches on the condition of what is no loop variable: for turns alone
  std::unordered_set<int32_t> body;  // nodes, those of child frames too, that run only when the condition holds
};

class LoopAnalysis {
 public:
  // Frame 0 is the step itself. INVALID_ARGUMENT when frames do not nest (a value enters a loop without an Enter), RESOURCE_EXHAUSTED
  // when they are deeper than kDeepestLoop.
  static Result<LoopAnalysis> Run(const Graph& graph, const std::vector<int32_t>& order);

  const std::vector<Frame>& frames() const { return frames_; }
  int frame_of(int32_t node) const { return frame_of_[static_cast<size_t>(node)]; }
  bool has_loops() const { return frames_.size() > 1; }
  // Whether `inner` is `outer` or nested in it.
  bool IsWithin(int inner, int outer) const;

  // What a frame consists of, in an order in which everything comes after what it depends on: its own nodes, and its
  // child loops as wholes.
  struct Item {
    int32_t node = -1;
    int child = -1;  // a frame, when node is -1
  };
  Result<std::vector<Item>> Items(const Graph& graph, const std::vector<int32_t>& order, int frame) const;

 private:
  void Structure(const Graph& graph, const std::vector<int32_t>& order, size_t frame);

  std::vector<Frame> frames_;
  std::vector<int> frame_of_;  // -1: not in the order
};

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_LOOP_ANALYSIS_H_
