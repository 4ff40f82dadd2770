// SPDX-License-Identifier: Apache-2.0
#include "core/exec/lower/borders.h"

#include <algorithm>

#include "core/graph/graph.h"

namespace tenon::exec {

using graph::Edge;

Border Borders::Of(const std::vector<graph::NodeId>& nodes) {
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

bool Borders::IsReadOutside(Edge edge, const std::function<bool(graph::NodeId)>& inside) {
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

}  // namespace tenon::exec
