// SPDX-License-Identifier: Apache-2.0
#include "core/grad/forward_graph.h"

namespace tenon::grad {

using graph::Edge;
using graph::FrameId;

Result<ForwardGraph> ForwardGraph::Of(const graph::Graph* graph) {
  ForwardGraph out(graph);
  TENON_ASSIGN_OR_RETURN(out.order_, graph->TopologicalOrder());
  TENON_ASSIGN_OR_RETURN(out.loops_, graph::LoopAnalysis::Run(*graph, out.order_));
  out.branches_ = Branches(graph, out.order_);
  return out;
}

FrameId ForwardGraph::FrameOf(Edge edge) const {
  if (const auto it = added_frames_.find(edge.node); it != added_frames_.end()) return it->second;
  if (!Has(edge.node)) return FrameId();
  const FrameId frame = loops_.frame_of(edge.node);
  if (frame > graph::kStep && graph_->node(edge.node).has(TENON_OP_EXIT)) return loops_.frame(frame).parent;
  return frame;
}

std::vector<Branch> ForwardGraph::BranchesOf(Edge edge) const {
  if (Has(edge.node)) return branches_.Of(edge);
  const auto it = added_branches_.find(edge.node);
  return it == added_branches_.end() ? std::vector<Branch>() : it->second;
}

void ForwardGraph::NoteAdded(graph::NodeId node, FrameId frame, Edge beside) {
  added_frames_[node] = frame;
  added_branches_[node] = Has(beside.node) ? branches_.Of(beside) : std::vector<Branch>();
}

}  // namespace tenon::grad
