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
#include "tenon/graph.h"

// The ABI's opaque graph.
struct tenon_graph {
  const tenon::graph::Graph* graph = nullptr;
  bool has_own_numbers = false;           // the graph's; else those below
  std::vector<tenon::graph::NodeId> ids;  // by number
  tenon::graph::NodeMap<int64_t> numbers;
  std::function<tenon_shape(tenon::graph::Edge)> shape_of;
};

namespace tenon::graph {

// Refers to the graph. Const use from any thread.
class Cursor {
 public:
  // order: topological, back edges excepted. shape_of: the dims live as long as what it refers to.
  Cursor(const Graph& graph, const std::vector<NodeId>& order, std::function<tenon_shape(Edge)> shape_of);
  // With the graph's own numbers, in no order. It may grow meanwhile.
  Cursor(const Graph& graph, std::function<tenon_shape(Edge)> shape_of);
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
