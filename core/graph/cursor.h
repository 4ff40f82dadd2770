// SPDX-License-Identifier: Apache-2.0
// Cursor: a graph as plugins read it, through the C table.
//
// Nodes have other numbers there than in the graph: topological ones, where an order is given. Nodes outside the order
// come first.
#ifndef TENON_CORE_GRAPH_CURSOR_H_
#define TENON_CORE_GRAPH_CURSOR_H_

#include <functional>
#include <vector>

#include "core/base/checked.h"
#include "core/graph/edge.h"
#include "core/graph/shape_inference.h"
#include "tenon/graph.h"

// The ABI's opaque graph.
struct tenon_graph {
  const tenon::graph::Graph* graph = nullptr;
  bool has_own_numbers = false;           // the graph's; else those below
  std::vector<tenon::graph::NodeId> ids;  // by number
  tenon::graph::NodeMap<int64_t> numbers;
  std::function<const tenon::graph::ShapeInference&()> inferred;
};

namespace tenon::graph {

// Refers to the graph. Const use from any thread.
class Cursor {
 public:
  using Inferred = std::function<const ShapeInference&()>;  // of all nodes; called when a shape is asked for
  // order: topological, back edges excepted. Shapes live as long as what `inferred` gives.
  Cursor(const Graph& graph, const std::vector<NodeId>& order, Inferred inferred);
  // With the graph's own numbers, in no order. It may grow meanwhile.
  Cursor(const Graph& graph, Inferred inferred);
  Cursor(const Cursor&) = delete;
  Cursor& operator=(const Cursor&) = delete;

  const tenon_graph_cursor* c() const { return &table_; }
  int64_t NumberOf(NodeId id) const { return state_.numbers[id]; }
  NodeId IdOf(int64_t number) const { return state_.ids[number]; }
  bool Has(int64_t number) const { return Within(number, state_.ids.size()); }

 private:
  tenon_graph state_;
  tenon_graph_cursor table_;
};

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_CURSOR_H_
