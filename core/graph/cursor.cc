// SPDX-License-Identifier: Apache-2.0
#include "core/graph/cursor.h"

#include "core/graph/graph.h"

namespace tenon::graph {
namespace {

size_t CountOf(const tenon_graph* graph) { return graph->has_own_numbers ? graph->graph->size() : graph->ids.size(); }

const Node* Find(const tenon_graph* graph, int64_t number) {
  if (!Within(number, CountOf(graph))) return nullptr;
  return &graph->graph->node(graph->has_own_numbers ? NodeId(number) : graph->ids[number]);
}

int64_t NumberIn(const tenon_graph* graph, NodeId id) {
  return graph->has_own_numbers ? id.number() : graph->numbers[id];
}

tenon_status* NoSuch(int64_t number, const char* what) {
  return InvalidArgument(StrCat("the graph has no ", what, " ", number)).release();
}

int64_t NodeCount(const tenon_graph* graph) { return static_cast<int64_t>(CountOf(graph)); }

const tenon_node* NodeAt(const tenon_graph* graph, int64_t id) { return Find(graph, id); }

tenon_status* CursorInput(const tenon_graph* graph, int64_t id, int32_t index, tenon_output* out_source) {
  const Node* node = Find(graph, id);
  if (node == nullptr) return NoSuch(id, "node");
  if (!Within(index, node->inputs.size()))
    return InvalidArgument(StrCat(node->Describe(), " has no input ", index, "; it has ", node->inputs.size()))
        .release();
  const Edge edge = node->inputs[index];
  *out_source = {!edge.node ? -1 : NumberIn(graph, edge.node), edge.index, 0};
  return nullptr;
}

int32_t ControlInputCount(const tenon_graph* graph, int64_t id) {
  const Node* node = Find(graph, id);
  return node == nullptr ? 0 : static_cast<int32_t>(node->controls.size());
}

tenon_status* ControlInput(const tenon_graph* graph, int64_t id, int32_t index, int64_t* out_source) {
  const Node* node = Find(graph, id);
  if (node == nullptr) return NoSuch(id, "node");
  if (!Within(index, node->controls.size()))
    return InvalidArgument(
               StrCat(node->Describe(), " waits for ", node->controls.size(), " nodes; ", index, " was asked for"))
        .release();
  *out_source = NumberIn(graph, node->controls[index]);
  return nullptr;
}

// what(inferred, edge) of an output.
template <class What>
tenon_status* Ask(const tenon_graph* graph, tenon_output output, What&& what, tenon_shape* out_shape) {
  const Node* node = Find(graph, output.node);
  if (node == nullptr) return NoSuch(output.node, "node");
  if (!Within(output.index, node->output_types.size())) return NoSuch(output.index, "such output");
  *out_shape = what(graph->inferred(), Edge{node->id, output.index}).c();
  return nullptr;
}

tenon_status* CursorOutputShape(const tenon_graph* graph, tenon_output output, tenon_shape* out_shape) {
  const auto shape = [](const ShapeInference& known, Edge edge) -> const Shape& { return known.facts(edge).shape; };
  return Ask(graph, output, shape, out_shape);
}

tenon_status* CursorNamedShape(const tenon_graph* graph, tenon_output output, tenon_shape* out_shape) {
  const auto named = [](const ShapeInference& known, Edge edge) -> const Shape& { return known.named_shape(edge); };
  return Ask(graph, output, named, out_shape);
}

tenon_status* CursorOutputElements(const tenon_graph* graph, tenon_output output, tenon_shape* out_elements) {
  const auto elements = [](const ShapeInference& known, Edge edge) -> const Shape& { return known.elements(edge); };
  return Ask(graph, output, elements, out_elements);
}

tenon_graph_cursor Table(const tenon_graph* graph) {
  return {TENON_HEAD(tenon_graph_cursor), graph, NodeServices(), NodeCount, NodeAt, CursorInput, ControlInputCount,
          ControlInput, CursorOutputShape, nullptr, CursorNamedShape, CursorOutputElements};
}

}  // namespace

Cursor::Cursor(const Graph& graph, Inferred inferred) : table_(Table(&state_)) {
  state_.graph = &graph;
  state_.has_own_numbers = true;
  state_.inferred = std::move(inferred);
}

Cursor::Cursor(const Graph& graph, const std::vector<NodeId>& order, Inferred inferred)
    : table_(Table(&state_)) {
  state_.graph = &graph;
  state_.inferred = std::move(inferred);
  NodeMap<bool> ordered(graph.size(), false);
  for (NodeId id : order) ordered[id] = true;
  for (const NodeId id : graph.ids())
    if (!ordered[id]) state_.ids.push_back(id);
  state_.ids.insert(state_.ids.end(), order.begin(), order.end());
  state_.numbers.resize(state_.ids.size());
  for (size_t number = 0; number < state_.ids.size(); ++number)
    state_.numbers[state_.ids[number]] = static_cast<int64_t>(number);
}

}  // namespace tenon::graph
