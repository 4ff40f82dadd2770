// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

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
    out.library() = partitioned_.parts[0].graph.library();
    out.set_producer(partitioned_.parts[0].graph.producer());
    // Those that were taken, by their ids in the whole graph.
    std::vector<std::tuple<int32_t, size_t, int32_t>> nodes;
    for (size_t p = 0; p < partitioned_.parts.size(); ++p) {
      const Part& part = partitioned_.parts[p];
      for (size_t i = 0; i < part.feeds.size(); ++i) feeds_[{p, part.feeds[i]}] = part.feed_numbers[i];
      for (int32_t id = 0; id < part.graph.size(); ++id)
        if (const auto at = static_cast<size_t>(id); part.origins[at] >= 0 && !part.repeats[at]) nodes.emplace_back(part.origins[at], p, id);
    }
    std::sort(nodes.begin(), nodes.end());
    std::vector<std::pair<int32_t, int32_t>> open;
    for (const auto& [origin, p, id] : nodes) {
      const Node& node = partitioned_.parts[p].graph.node(id);
      graph::NodeSpec spec{node.op, node.name, {}, {}, node.attrs, node.device};
      for (const Edge& edge : node.inputs) {
        const Edge whole = Whole(p, edge);
        const auto at = moved_.find(whole.node);
        if (at == moved_.end() && whole.node >= 0) open.emplace_back(static_cast<int32_t>(out.size()), static_cast<int32_t>(spec.inputs.size()));
        spec.inputs.push_back(at == moved_.end() ? Edge{} : Edge{at->second, whole.index});
      }
      for (int32_t control : node.controls)
        if (const auto at = moved_.find(Whole(p, {control, -1}).node); at != moved_.end()) spec.controls.push_back(at->second);
      TENON_ASSIGN_OR_RETURN(moved_[origin], out.Add(std::move(spec)));
      sources_.emplace_back(p, id);
    }
    for (const auto& [to, input] : open) {
      const auto [p, id] = sources_[static_cast<size_t>(to)];
      const Edge whole = Whole(p, partitioned_.parts[p].graph.node(id).inputs[static_cast<size_t>(input)]);
      const auto at = moved_.find(whole.node);
      if (at == moved_.end()) return Internal(StrCat(out.node(to).Describe(), ": input ", input, " is of a node that is in no part"));
      TENON_RETURN_IF_ERROR(out.SetInput(to, input, {at->second, whole.index}));
    }
    return out;
  }

 private:
  // What an edge of a part is in the whole graph.
  Edge Whole(size_t p, Edge edge) const {
    if (edge.node < 0) return edge;
    const Part& part = partitioned_.parts[p];
    const auto at = static_cast<size_t>(edge.node);
    if (part.origins[at] >= 0) return {part.origins[at], edge.index};
    if (part.channels[at] >= 0) return partitioned_.channels[static_cast<size_t>(part.channels[at])].value;
    const auto fed = feeds_.find({p, edge});
    return fed == feeds_.end() ? Edge{} : partitioned_.feeds[static_cast<size_t>(fed->second)];
  }

  const Partitioned& partitioned_;
  std::map<std::pair<size_t, Edge>, int32_t> feeds_;
  std::map<int32_t, int32_t> moved_;
  std::vector<std::pair<size_t, int32_t>> sources_;  // by node of the result
};

}  // namespace

Result<graph::Graph> Merge(const Partitioned& partitioned) {
  if (partitioned.parts.empty()) return InvalidArgument("there are no parts to merge");
  return Merger(partitioned).Merge();
}

}  // namespace tenon::partition
