// SPDX-License-Identifier: Apache-2.0
// The graphs of app.h.
#include <cstring>

#include "core/grad/gradients.h"
#include "core/graph/builder.h"
#include "core/graph/graphdef/convert.h"
#include "core/graph/op_def.h"
#include "sdk/app/host/call_shape.h"
#include "sdk/app/host/objects.h"

using namespace tenon;  // NOLINT: this file implements C functions of the global namespace
using host::Array, host::List, host::Whole;

tenon_app_graph::tenon_app_graph(tenon_runtime* owner)
    : runtime(owner), graph(&owner->runtime.ops()), builder(std::make_unique<graph::Builder>(&graph)) {}
tenon_app_graph::~tenon_app_graph() = default;

namespace {

bool HasNode(const tenon_app_graph* graph, int64_t node) {
  return graph != nullptr && node >= 0 && static_cast<uint64_t>(node) < graph->graph.size();
}

Status CheckNode(const tenon_app_graph* graph, int64_t node) {
  if (HasNode(graph, node)) return Status::Ok();
  return OutOfRange(StrCat("there is no node ", node, "; the graph has ", graph->graph.size()));
}

Result<graph::Edge> CheckEdge(const tenon_app_graph* graph, tenon_output output) {
  TENON_RETURN_IF_ERROR(CheckNode(graph, output.node));
  const graph::Node& node = graph->graph.node(graph::NodeId(output.node));
  if (output.index < 0 || static_cast<size_t>(output.index) >= node.output_types.size())
    return OutOfRange(StrCat(node.Describe(), " has no output ", output.index));
  return graph::FromC(output);
}

Result<std::vector<graph::Edge>> CheckEdges(const tenon_app_graph* graph, const tenon_output* outputs, uint64_t count) {
  std::vector<graph::Edge> out;
  for (uint64_t i = 0; i < count; ++i) {
    TENON_ASSIGN_OR_RETURN(const graph::Edge edge, CheckEdge(graph, outputs[i]));
    out.push_back(edge);
  }
  return out;
}

}  // namespace

extern "C" {

tenon_status* tenon_graph_create(tenon_runtime* runtime, tenon_app_graph** out_graph) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(runtime, out_graph);
    *out_graph = new tenon_app_graph(runtime);
    return Status::Ok();
  });
}
void tenon_graph_release(tenon_app_graph* graph) { delete graph; }

tenon_status* tenon_graph_import(tenon_app_graph* graph, tenon_span graph_def) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(graph, graph_def);
    graph->functions.clear();
    return graph::ImportGraphDef(View(graph_def), &graph->graph);
  });
}

tenon_status* tenon_graph_export(const tenon_app_graph* graph, tenon_text** out_graph_def) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(graph, out_graph_def);
    TENON_ASSIGN_OR_RETURN(std::string bytes, graph::ExportGraphDef(graph->graph));
    *out_graph_def = new tenon_text{std::move(bytes)};
    return Status::Ok();
  });
}

tenon_status* tenon_graph_add_node(tenon_app_graph* graph, const tenon_node_spec* spec, tenon_span device,
                                   int64_t* out_node) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(graph, spec, device, out_node);
    tenon_node_spec known;
    TENON_RETURN_IF_ERROR(host::ReadOptions(spec, &known, "spec"));
    const size_t before = graph->graph.size();
    TENON_RETURN_IF_ERROR(host::TakeFunctions(graph, known));
    const std::string around = graph->builder->device();
    if (device.size != 0) graph->builder->set_device(std::string(View(device)));
    Status status(graph->builder->c()->add_node(graph->builder.get(), &known, out_node));
    graph->builder->set_device(around);
    if (!status.ok()) return status;
    status = graph->builder->Check(graph::NodeId(*out_node));
    if (!status.ok()) {
      graph->graph.Truncate(before);
      graph->builder->Forget();
    }
    return status;
  });
}

tenon_status* tenon_graph_set_input(tenon_app_graph* graph, int64_t node, int32_t index, tenon_output source) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(graph);
    TENON_RETURN_IF_ERROR(CheckNode(graph, node));
    TENON_ASSIGN_OR_RETURN(const graph::Edge edge, CheckEdge(graph, source));
    const graph::Node& n = graph->graph.node(graph::NodeId(node));
    if (index < 0 || static_cast<size_t>(index) >= n.inputs.size())
      return OutOfRange(StrCat(n.Describe(), " has no input ", index));
    if (edge.node > n.id && !graph::IsBackEdge(graph->graph.node(edge.node), n))
      return InvalidArgument(StrCat(n.Describe(), ": an edge may lead back only from a next-iteration to a merge"));
    TENON_RETURN_IF_ERROR(graph->graph.SetInput(n.id, index, edge));
    graph->builder->Forget();
    return Status::Ok();
  });
}

tenon_status* tenon_graph_add_constant(tenon_app_graph* graph, tenon_span name, const tenon_tensor_view* value,
                                       tenon_output* out_output) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(graph, name, Whole(value), out_output);
    TENON_ASSIGN_OR_RETURN(Tensor tensor, Tensor::CopyOf(GlobalPool(), *value));
    TENON_ASSIGN_OR_RETURN(const graph::Edge edge, graph->builder->Constant(std::move(tensor), View(name)));
    *out_output = graph::ToC(edge);
    return Status::Ok();
  });
}

tenon_status* tenon_graph_find(const tenon_app_graph* graph, tenon_span name, int64_t* out_node) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(graph, name, out_node);
    TENON_ASSIGN_OR_RETURN(const graph::NodeId node, graph->graph.Get(View(name)));
    *out_node = node.number();
    return Status::Ok();
  });
}

int64_t tenon_graph_node_count(const tenon_app_graph* graph) {
  return graph == nullptr ? 0 : static_cast<int64_t>(graph->graph.size());
}
tenon_span tenon_graph_node_name(const tenon_app_graph* graph, int64_t node) {
  return HasNode(graph, node) ? Span(graph->graph.node(graph::NodeId(node)).name) : tenon_span{"", 0};
}
tenon_span tenon_graph_node_op(const tenon_app_graph* graph, int64_t node) {
  return HasNode(graph, node) ? Span(graph->graph.node(graph::NodeId(node)).op->name) : tenon_span{"", 0};
}
tenon_span tenon_graph_node_device(const tenon_app_graph* graph, int64_t node) {
  return HasNode(graph, node) ? Span(graph->graph.node(graph::NodeId(node)).device) : tenon_span{"", 0};
}
int32_t tenon_graph_node_output_count(const tenon_app_graph* graph, int64_t node) {
  return HasNode(graph, node) ? static_cast<int32_t>(graph->graph.node(graph::NodeId(node)).output_types.size()) : 0;
}
int32_t tenon_graph_node_input_count(const tenon_app_graph* graph, int64_t node) {
  return HasNode(graph, node) ? static_cast<int32_t>(graph->graph.node(graph::NodeId(node)).inputs.size()) : 0;
}

tenon_status* tenon_graph_node_input(const tenon_app_graph* graph, int64_t node, int32_t index,
                                     tenon_output* out_source) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(graph, out_source);
    TENON_RETURN_IF_ERROR(CheckNode(graph, node));
    const graph::Node& n = graph->graph.node(graph::NodeId(node));
    if (index < 0 || static_cast<size_t>(index) >= n.inputs.size())
      return OutOfRange(StrCat(n.Describe(), " has no input ", index));
    *out_source = graph::ToC(n.inputs[index]);
    return Status::Ok();
  });
}

uint64_t tenon_graph_node_control_inputs(const tenon_app_graph* graph, int64_t node, int64_t* out_nodes,
                                         uint64_t capacity) {
  if (!HasNode(graph, node) || TENON_FAULT_AMONG(Array(out_nodes, capacity))) return 0;
  const std::vector<graph::NodeId>& controls = graph->graph.node(graph::NodeId(node)).controls;
  for (size_t i = 0; i < controls.size() && i < capacity; ++i) out_nodes[i] = controls[i].number();
  return controls.size();
}

tenon_status* tenon_graph_node_attr(const tenon_app_graph* graph, int64_t node, tenon_span name,
                                    tenon_attr_value* out_value) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(graph, name, out_value);
    TENON_RETURN_IF_ERROR(CheckNode(graph, node));
    return Status(graph::NodeServices()->attr(&graph->graph.node(graph::NodeId(node)), name, out_value));
  });
}

uint32_t tenon_graph_output_dtype(const tenon_app_graph* graph, tenon_output output) {
  if (graph == nullptr) return TENON_DT_INVALID;
  auto edge = CheckEdge(graph, output);
  return edge.ok() ? graph->graph.TypeOf(*edge) : TENON_DT_INVALID;
}

tenon_status* tenon_graph_output_shape(const tenon_app_graph* graph, tenon_output output, tenon_shape* out_shape) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(graph, out_shape);
    TENON_ASSIGN_OR_RETURN(const graph::Edge edge, CheckEdge(graph, output));
    tenon_app_graph* lender = const_cast<tenon_app_graph*>(graph);
    *out_shape = lender->Lend(host::ShapeOf(lender->builder.get(), edge));
    return Status::Ok();
  });
}

tenon_status* tenon_graph_add_gradients(tenon_app_graph* graph, const tenon_output* ys, uint64_t y_count,
                                        const tenon_output* xs, uint64_t x_count, const tenon_output* initial,
                                        tenon_gradient* out_gradients) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(graph, List(ys, y_count), List(xs, x_count), Array(out_gradients, x_count));
    TENON_ASSIGN_OR_RETURN(std::vector<graph::Edge> y_edges, CheckEdges(graph, ys, y_count));
    TENON_ASSIGN_OR_RETURN(std::vector<graph::Edge> x_edges, CheckEdges(graph, xs, x_count));
    graph->functions.clear();  // gradients may be functions
    std::vector<graph::Edge> first;
    if (initial != nullptr) {
      TENON_ASSIGN_OR_RETURN(first, CheckEdges(graph, initial, y_count));
    }
    TENON_ASSIGN_OR_RETURN(std::vector<tenon_gradient> gradients,
                           grad::AddGradients(graph->builder.get(), y_edges, x_edges, first));
    std::copy(gradients.begin(), gradients.end(), out_gradients);
    return Status::Ok();
  });
}

void tenon_graph_set_scope(tenon_app_graph* graph, tenon_span scope) {
  if (TENON_FAULT_AMONG(graph, scope)) return;
  graph->builder->set_scope(std::string(View(scope)));
}
tenon_span tenon_graph_get_scope(const tenon_app_graph* graph) {
  return graph == nullptr ? tenon_span{"", 0} : Span(graph->builder->scope());
}

void tenon_graph_set_device(tenon_app_graph* graph, tenon_span device) {
  if (TENON_FAULT_AMONG(graph, device)) return;
  graph->builder->set_device(std::string(View(device)));
}
tenon_span tenon_graph_get_device(const tenon_app_graph* graph) {
  return graph == nullptr ? tenon_span{"", 0} : Span(graph->builder->device());
}

tenon_status* tenon_graph_set_control_inputs(tenon_app_graph* graph, const int64_t* nodes, uint64_t count) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(graph, List(nodes, count));
    std::vector<graph::NodeId> controls;
    for (uint64_t i = 0; i < count; ++i) {
      TENON_RETURN_IF_ERROR(CheckNode(graph, nodes[i]));
      controls.push_back(graph::NodeId(nodes[i]));
    }
    graph->builder->set_controls(std::move(controls));
    return Status::Ok();
  });
}

uint64_t tenon_graph_get_control_inputs(const tenon_app_graph* graph, int64_t* out_nodes, uint64_t capacity) {
  if (TENON_FAULT_AMONG(graph, Array(out_nodes, capacity))) return 0;
  const std::vector<graph::NodeId>& controls = graph->builder->controls();
  for (uint64_t i = 0; i < std::min<uint64_t>(capacity, controls.size()); ++i) out_nodes[i] = controls[i].number();
  return controls.size();
}

}  // extern "C"
