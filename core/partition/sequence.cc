// SPDX-License-Identifier: Apache-2.0
#include "core/partition/sequence.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "core/graph/graph.h"

namespace tenon::partition {

using graph::Edge;
using graph::Frame;
using graph::FrameId;
using graph::LoopAnalysis;
using graph::Node;

namespace {

// An item of a frame is a node of it, or a loop in it as a whole. Items have numbers: a node its own, frame f the
// number of nodes + f.
class Sorter {
 public:
  Sorter(const graph::Graph& graph, const std::vector<graph::NodeId>& order, const LoopAnalysis& loops)
      : graph_(graph), order_(order), loops_(loops), node_count_(graph.size()),
        pending_(node_count_ + loops.frames().size()), rank_(pending_.size(), -1), items_(loops.frames().size()) {
    depth_.resize(loops.frames().size());
    for (const FrameId frame : depth_.ids())
      if (frame != graph::kStep) depth_[frame] = depth_[loops.frame(frame).parent] + 1;
  }

  Status Sort() {
    for (size_t i = 0; i < order_.size(); ++i) AddItems(order_[i], static_cast<int32_t>(i));
    for (graph::NodeId id : order_) {
      const Node& node = graph_.node(id);
      for (const Edge& edge : node.inputs)
        if (edge.node && !IsBackEdge(graph_.node(edge.node), node)) Depend(edge.node, id);
      for (graph::NodeId control : node.controls) Depend(control, id);
    }
    Index();
    begin_.assign(loops_.frames().size(), 0);
    end_ = begin_;
    return Emit(graph::kStep);
  }

  std::vector<graph::NodeId> nodes_;
  IdVector<FrameId, int32_t> begin_, end_;
  IdVector<FrameId, int> depth_;

 private:
  size_t ItemOf(FrameId frame) const { return node_count_ + frame.index(); }
  FrameId FrameOf(size_t item) const { return FrameId(item - node_count_); }  // of an item that is a loop
  FrameId OwnerOf(size_t item) const {
    if (item < node_count_) return loops_.frame_of(graph::NodeId(item));
    return loops_.frame(FrameOf(item)).parent;
  }

  // The node, and the loops around it when it is the first of them.
  void AddItems(graph::NodeId id, int32_t rank) {
    for (size_t item = id.index(); rank_[item] < 0; item = ItemOf(OwnerOf(item))) {
      rank_[item] = rank;
      if (!OwnerOf(item)) return;
      items_[OwnerOf(item)].push_back(item);
    }
  }

  void Depend(graph::NodeId from, graph::NodeId to) {
    size_t a = from.index(), b = to.index();
    if (!loops_.frame_of(from)) return;
    while (OwnerOf(a) != OwnerOf(b)) {
      const bool lift_a = depth_[OwnerOf(a)] >= depth_[OwnerOf(b)];
      size_t& deeper = lift_a ? a : b;
      deeper = ItemOf(OwnerOf(deeper));
    }
    if (a != b) dependences_.emplace_back(a, b);
  }

  // Users by item, side by side.
  void Index() {
    first_user_.assign(pending_.size() + 1, 0);
    for (const auto& [from, to] : dependences_) {
      ++first_user_[from + 1];
      ++pending_[to];
    }
    for (size_t i = 1; i < first_user_.size(); ++i) first_user_[i] += first_user_[i - 1];
    users_.resize(dependences_.size());
    std::vector<size_t> next(first_user_.begin(), first_user_.end() - 1);
    for (const auto& [from, to] : dependences_) users_[next[from]++] = to;
  }

  bool IsBody(const Frame& frame, size_t item) const {
    if (item < node_count_) return frame.body.contains(graph::NodeId(item));
    const std::vector<graph::NodeId>& enters = loops_.frame(FrameOf(item)).enters;
    return std::any_of(enters.begin(), enters.end(), [&](graph::NodeId enter) { return frame.body.contains(enter); });
  }

  // Appends the frame's nodes.
  Status Emit(FrameId index) {
    const Frame& frame = loops_.frame(index);
    begin_[index] = static_cast<int32_t>(nodes_.size());
    struct Ready {
      bool body;
      int32_t rank;
      size_t item;
      bool operator>(const Ready& other) const {
        return body != other.body ? body : rank != other.rank ? rank > other.rank : item > other.item;
      }
    };
    std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
    const auto push = [&](size_t item) { ready.push({frame.structured && IsBody(frame, item), rank_[item], item}); };
    for (size_t item : items_[index])
      if (pending_[item] == 0) push(item);
    size_t emitted = 0;
    for (; !ready.empty(); ++emitted) {
      const size_t item = ready.top().item;
      ready.pop();
      if (item < node_count_) nodes_.push_back(graph::NodeId(item));
      else TENON_RETURN_IF_ERROR(Emit(FrameOf(item)));
      for (size_t i = first_user_[item]; i < first_user_[item + 1]; ++i)
        if (--pending_[users_[i]] == 0) push(users_[i]);
    }
    end_[index] = static_cast<int32_t>(nodes_.size());
    if (emitted == items_[index].size()) return Status::Ok();
    return InvalidArgument(StrCat("a loop in '", frame.name, "' depends on itself from outside"));
  }

  const graph::Graph& graph_;
  const std::vector<graph::NodeId>& order_;
  const LoopAnalysis& loops_;
  const size_t node_count_;
  std::vector<int32_t> pending_;              // by item
  std::vector<int32_t> rank_;                 // by item: where the order has it, or its first node
  IdVector<FrameId, std::vector<size_t>> items_;
  std::vector<std::pair<size_t, size_t>> dependences_;
  std::vector<size_t> first_user_, users_;
};

}  // namespace

Result<Sequence> Sequence::Make(const graph::Graph& graph, const std::vector<graph::NodeId>& order,
                                const LoopAnalysis& loops) {
  Sorter sorter(graph, order, loops);
  TENON_RETURN_IF_ERROR(sorter.Sort());
  Sequence out;
  out.nodes_ = std::move(sorter.nodes_);
  out.begin_ = std::move(sorter.begin_);
  out.end_ = std::move(sorter.end_);
  out.depth_ = std::move(sorter.depth_);
  out.position_.assign(graph.size(), -1);
  for (size_t i = 0; i < out.nodes_.size(); ++i) out.position_[out.nodes_[i]] = static_cast<int32_t>(i);
  return out;
}

}  // namespace tenon::partition
