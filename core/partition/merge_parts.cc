// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "core/graph/function/function_library.h"
#include "core/graph/graph.h"
#include "core/partition/partition.h"

namespace tenon::partition {

using graph::Edge;
using graph::Node;

namespace {

class Merger {
 public:
  explicit Merger(const Partitioned& partitioned) : partitioned_(partitioned) {}

  Result<graph::Graph> Merge() {
    graph::Graph out(&partitioned_.parts[0].graph.registry());
    for (const Part& part : partitioned_.parts)
      TENON_RETURN_IF_ERROR(graph::AddFunctions(part.graph.library(), &out.library()));
    out.set_producer(partitioned_.parts[0].graph.producer());
    // Those that were taken, by their ids in the whole graph.
    std::vector<std::tuple<graph::NodeId, size_t, graph::NodeId>> nodes;
    for (size_t p = 0; p < partitioned_.parts.size(); ++p) {
      const Part& part = partitioned_.parts[p];
      for (size_t i = 0; i < part.feeds.size(); ++i) feeds_[{p, part.feeds[i]}] = part.feed_numbers[i];
      for (const graph::NodeId id : part.graph.ids())
        if (part.origins[id] && !part.repeats[id]) nodes.emplace_back(part.origins[id], p, id);
    }
    std::sort(nodes.begin(), nodes.end());
    std::vector<std::pair<graph::NodeId, int32_t>> open;
    for (const auto& [origin, p, id] : nodes) {
      const Node& node = partitioned_.parts[p].graph.node(id);
      graph::NodeSpec spec{node.op, node.name, {}, {}, node.attrs, node.device};
      for (const Edge& edge : node.inputs) {
        const Edge whole = Whole(p, edge);
        const auto at = moved_.find(whole.node);
        if (at == moved_.end() && whole.node)
          open.emplace_back(out.next_id(), static_cast<int32_t>(spec.inputs.size()));
        spec.inputs.push_back(at == moved_.end() ? Edge{} : Edge{at->second, whole.index});
      }
      for (graph::NodeId control : node.controls)
        if (const auto at = moved_.find(Whole(p, {control, -1}).node); at != moved_.end())
          spec.controls.push_back(at->second);
      TENON_ASSIGN_OR_RETURN(moved_[origin], out.Add(std::move(spec)));
      sources_.push_back({p, id});
    }
    for (const auto& [to, input] : open) {
      const auto [p, id] = sources_[to];
      const Edge whole = Whole(p, partitioned_.parts[p].graph.node(id).inputs[input]);
      const auto at = moved_.find(whole.node);
      if (at == moved_.end() && IsFed(whole)) continue;  // of a node that did not run
      if (at == moved_.end())
        return Internal(StrCat(out.node(to).Describe(), ": input ", input, " is of a node that is in no part"));
      TENON_RETURN_IF_ERROR(out.SetInput(to, input, {at->second, whole.index}));
    }
    return out;
  }

 private:
  // What an edge of a part is in the whole graph.
  Edge Whole(size_t p, Edge edge) const {
    if (!edge.node) return edge;
    const Part& part = partitioned_.parts[p];
    if (part.origins[edge.node]) return {part.origins[edge.node], edge.index};
    if (part.channels[edge.node]) return partitioned_.channels[part.channels[edge.node]].value;
    const auto fed = feeds_.find({p, edge});
    return fed == feeds_.end() ? Edge{} : partitioned_.feeds[fed->second];
  }

  bool IsFed(Edge whole) const {
    return std::find(partitioned_.feeds.begin(), partitioned_.feeds.end(), whole) != partitioned_.feeds.end();
  }

  const Partitioned& partitioned_;
  std::map<std::pair<size_t, Edge>, int32_t> feeds_;
  std::map<graph::NodeId, graph::NodeId> moved_;
  graph::NodeMap<std::pair<size_t, graph::NodeId>> sources_;  // by node of the result
};

}  // namespace

Result<graph::Graph> Merge(const Partitioned& partitioned) {
  if (partitioned.parts.empty()) return InvalidArgument("there are no parts to merge");
  return Merger(partitioned).Merge();
}

}  // namespace tenon::partition
