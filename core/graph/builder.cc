// SPDX-License-Identifier: Apache-2.0
#include "core/graph/builder.h"

#include "core/base/checked.h"
#include "core/graph/graph.h"
#include "core/graph/op_def.h"
#include "core/graph/op_registry.h"
#include "core/tensor/allowance.h"

namespace tenon::graph {
namespace {

Builder* Self(tenon_graph_builder_context* context) { return static_cast<Builder*>(context); }

bool HasNumber(const Graph& graph, int64_t node) { return Within(node, graph.size()); }

Result<NodeId> AddSpec(Builder* builder, const tenon_node_spec& spec) {
  if (spec.must_understand != 0) return Unimplemented("a node's spec needs a feature of a newer host");
  std::vector<Edge> inputs;
  for (uint64_t i = 0; i < spec.input_count; ++i) {
    auto edge = CheckedEdge(builder->graph(), spec.inputs[i]);
    if (!edge.ok()) return Status(edge.status()).Annotate(StrCat("new node of op '", View(spec.op), "', input ", i));
    inputs.push_back(*edge);
  }
  auto attrs = AttrsFromC({spec.attrs, spec.attr_count});
  if (!attrs.ok()) return Status(attrs.status()).Annotate(StrCat("new node of op '", View(spec.op), "'"));
  std::vector<NodeId> controls;
  for (uint64_t i = 0; i < spec.control_input_count; ++i) {
    if (!HasNumber(builder->graph(), spec.control_inputs[i]))
      return InvalidArgument(StrCat("new node of op '", View(spec.op), "': a control input does not exist"));
    controls.push_back(NodeId(spec.control_inputs[i]));
  }
  return builder->Add(View(spec.op), std::move(inputs), *std::move(attrs), View(spec.name), std::move(controls));
}

tenon_status* AddNode(tenon_graph_builder_context* context, const tenon_node_spec* spec, int64_t* out_node) {
  auto node = AddSpec(Self(context), *spec);
  if (!node.ok()) return Status(node.status()).release();
  *out_node = node->number();
  return nullptr;
}

tenon_status* AddConstant(tenon_graph_builder_context* context, const tenon_tensor_view* value,
                          tenon_output* out_output) {
  auto tensor = Tensor::CopyOf(KeptPool(), *value);
  if (!tensor.ok()) return Status(tensor.status()).release();
  auto edge = Self(context)->Constant(*std::move(tensor));
  if (!edge.ok()) return Status(edge.status()).release();
  *out_output = ToC(*edge);
  return nullptr;
}

uint32_t OutputType(tenon_graph_builder_context* context, tenon_output output) {
  auto edge = CheckedEdge(Self(context)->graph(), output);
  return edge.ok() ? Self(context)->graph().TypeOf(*edge) : TENON_DT_INVALID;
}

tenon_status* OutputShape(tenon_graph_builder_context* context, tenon_output output, tenon_shape* out_shape) {
  auto edge = CheckedEdge(Self(context)->graph(), output);
  if (!edge.ok()) return Status(edge.status()).release();
  *out_shape = Self(context)->Facts(*edge).shape.c();
  return nullptr;
}

tenon_status* OutputValue(tenon_graph_builder_context* context, tenon_output output, tenon_tensor_view* out_value) {
  auto edge = CheckedEdge(Self(context)->graph(), output);
  if (!edge.ok()) return Status(edge.status()).release();
  const OutputFacts& facts = Self(context)->Facts(*edge);
  *out_value = facts.value.has_value() ? facts.value.view() : tenon_tensor_view{};
  return nullptr;
}

}  // namespace

Result<Edge> CheckedEdge(const Graph& graph, tenon_output output) {
  if (!HasNumber(graph, output.node))
    return InvalidArgument(StrCat("an edge names the node ", output.node, ", the graph has ", graph.size()));
  const Node& node = graph.node(NodeId(output.node));
  if (!Within(output.index, node.output_types.size()))
    return InvalidArgument(StrCat("an edge names output ", output.index, " of ", node.Describe(), ", which has ",
                                  node.output_types.size()));
  return FromC(output);
}

Result<AttrMap> AttrsFromC(std::span<const tenon_attr> attrs) {
  AttrMap read;
  for (const tenon_attr& attr : attrs) {
    auto value = AttrValue::FromC(attr.value);
    if (!value.ok()) return Status(value.status()).Annotate(StrCat("attribute '", View(attr.name), "'"));
    read.emplace(std::string(View(attr.name)), *std::move(value));
  }
  return read;
}

Result<NodeSpec> LikeNode(const Node& node, const std::vector<DType>& input_types, AttrMap given) {
  if (input_types.size() != node.input_types.size())
    return InvalidArgument(StrCat(node.Describe(), " has ", node.input_types.size(),
                                  " inputs; what is like it cannot have ", input_types.size()));
  NodeSpec spec;
  spec.op = node.op;
  spec.attrs = std::move(given);
  for (size_t i = 0; i < node.op->inputs.size(); ++i) {
    const ArgDef& argument = node.op->inputs[i];
    std::vector<DType> types;
    for (int32_t k = 0; k < node.input_ranges[i].count; ++k)
      types.push_back(BaseType(input_types[static_cast<size_t>(node.input_ranges[i].begin + k)]));
    if (!argument.type_list_attr.empty()) spec.attrs.emplace(argument.type_list_attr, AttrValue::Types(types));
    else if (!argument.type_attr.empty() && !types.empty())
      spec.attrs.emplace(argument.type_attr, AttrValue::Type(types[0]));
  }
  const auto keep = [&](std::string_view name) {
    if (const AttrValue* const value = node.FindAttr(name); value != nullptr)
      spec.attrs.emplace(std::string(name), *value);
  };
  for (const AttrDef& attr : node.op->attrs) keep(attr.name);
  keep(kVersionAttr);  // a newer one may mean something else
  return spec;
}

Builder::Builder(Graph* graph)
    : graph_(graph),
      inference_(graph),
      table_{TENON_HEAD(tenon_graph_builder), this, &AddNode, &AddConstant, &OutputType, &OutputShape, &OutputValue} {}

Result<NodeId> Builder::AddOp(const OpDef* op, std::vector<Edge> inputs, AttrMap attrs, std::string_view name,
                               std::vector<NodeId> controls) {
  NodeSpec spec;
  spec.op = op;
  const std::string wish = name.empty() ? op->name : std::string(name);
  spec.name = graph_->UniqueName(scope_.empty() ? wish : scope_ + "/" + wish);
  spec.inputs = std::move(inputs);
  spec.controls = std::move(controls);
  spec.controls.insert(spec.controls.end(), controls_.begin(), controls_.end());
  spec.attrs = std::move(attrs);
  if (!state_scope_.empty() && HoldsState(*op))
    spec.attrs.insert_or_assign(std::string(kStateNameAttr),
                                AttrValue::String(StrCat(state_scope_, kInBody, "state_", states_++)));
  spec.device = device_;
  return graph_->Add(std::move(spec));
}

Result<NodeId> Builder::Add(std::string_view op, std::vector<Edge> inputs, AttrMap attrs, std::string_view name,
                             std::vector<NodeId> controls) {
  if (graph_->library().contains(op)) {
    TENON_ASSIGN_OR_RETURN(const OpDef* function, graph_->FunctionOp(op));
    return AddOp(function, std::move(inputs), std::move(attrs), name, std::move(controls));
  }
  TENON_ASSIGN_OR_RETURN(const OpDef* def, graph_->registry().Find(op));
  return AddOp(def, std::move(inputs), std::move(attrs), name, std::move(controls));
}

Result<NodeId> Builder::AddRole(std::string_view role, std::vector<Edge> inputs, AttrMap attrs, std::string_view name,
                                 std::vector<NodeId> controls) {
  TENON_ASSIGN_OR_RETURN(const OpDef* def, graph_->registry().FindRole(role));
  return AddOp(def, std::move(inputs), std::move(attrs), name, std::move(controls));
}

Result<NodeId> Builder::AddLike(NodeId like, std::vector<Edge> inputs, AttrMap attrs) {
  std::vector<DType> types;
  for (const Edge& edge : inputs) types.push_back(graph_->TypeOf(edge));
  TENON_ASSIGN_OR_RETURN(NodeSpec spec, LikeNode(graph_->node(like), types, std::move(attrs)));
  return AddOp(spec.op, std::move(inputs), std::move(spec.attrs), {}, {});
}

Result<Edge> Builder::Constant(Tensor value, std::string_view name) {
  AttrMap attrs;
  attrs.emplace("dtype", AttrValue::Type(value.dtype()));
  attrs.emplace("value", AttrValue::OfTensor(std::move(value)));
  TENON_ASSIGN_OR_RETURN(const NodeId node, AddRole("constant", {}, std::move(attrs), name));
  return Edge{node, 0};
}

Result<Edge> Builder::ScalarInt32(int32_t value, std::string_view name) {
  TENON_ASSIGN_OR_RETURN(Tensor tensor,
                         Tensor::FromValues<int32_t>(KeptPool(), TENON_DT_INT32, Shape(), std::span(&value, 1)));
  return Constant(std::move(tensor), name);
}

void Builder::Forget() {
  inference_ = ShapeInference(graph_);
  inference_.SetFed(fed_);
  inferred_ = NodeId(0);
}

const ShapeInference& Builder::Inferred() {
  if (graph_->Has(inferred_)) {
    // What was added since is in topological order.
    std::vector<NodeId> order;
    if (inferred_ == NodeId(0))
      if (auto all = graph_->TopologicalOrder(); all.ok()) order = *std::move(all);
    if (order.empty())
      for (const NodeId id : IdRange(inferred_, graph_->next_id())) order.push_back(id);
    (void)inference_.Run(order).ok();
    inferred_ = graph_->next_id();
  }
  return inference_;
}

Status Builder::Check(NodeId node) {
  (void)Facts({node, 0});
  return inference_.Run({node});
}

}  // namespace tenon::graph
