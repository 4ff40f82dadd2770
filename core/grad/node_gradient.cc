// SPDX-License-Identifier: Apache-2.0
#include "core/grad/node_gradient.h"

#include <algorithm>

#include "core/base/checked.h"
#include "core/base/plugin_call.h"
#include "core/graph/function/function_def.h"
#include "core/graph/graph.h"

namespace tenon::grad {

using graph::AttrValue;
using graph::Edge;
using graph::Node;
using graph::NodeId;
using GradientEntry = graph::OpRegistry::GradientEntry;

Result<std::vector<tenon_gradient>> NodeGradient::Of(const Node& node, const std::vector<tenon_gradient>& dy) {
  std::vector<tenon_gradient> dx(node.inputs.size(), kNoGradient);
  TENON_ASSIGN_OR_RETURN(const std::string own, own_.Of(node));
  TENON_RETURN_IF_ERROR(!own.empty()               ? ByFunction(node, own, dy, &dx)
                        : node.has(TENON_OP_SWITCH) ? OfSwitch(node, dy, &dx)
                        : node.has(TENON_OP_MERGE)  ? OfMerge(node, dy, &dx)
                                                    : OfOp(node, dy, &dx));
  return dx;
}

// Whichever side was taken has its gradient; the other is dead. A side without gradient gives zeros, alive or dead
// as the side is.
Status NodeGradient::OfSwitch(const Node& node, const std::vector<tenon_gradient>& dy,
                              std::vector<tenon_gradient>* dx) {
  const tenon_gradient& given = HasValue(dy[0]) ? dy[0] : dy[1];
  if (std::all_of(dy.begin(), dy.end(), [&](const tenon_gradient& each) {
        return !HasValue(each) || (each.kind == TENON_GRADIENT_SLICES && given.kind == TENON_GRADIENT_SLICES &&
                                   sums_.AreAlike(each, given));
      }))
    return RowsOfSwitch(node, dy, given, dx);
  std::vector<Edge> sides;
  for (int32_t k = 0; k < 2; ++k) {
    const Edge value{node.id, k};
    TENON_ASSIGN_OR_RETURN(const Edge side,
                           HasValue(dy[k]) ? sums_.Densify(dy[k]) : sums_.Zeros(value, sums_.TypeOf(given.dense)));
    sides.push_back(side);
  }
  TENON_ASSIGN_OR_RETURN(const NodeId merge, builder_->AddRole("merge", sides));
  (*dx)[0] = Dense({merge, 0});
  return Status::Ok();
}

// The rows of the side that was taken.
Status NodeGradient::RowsOfSwitch(const Node& node, const std::vector<tenon_gradient>& dy, const tenon_gradient& alike,
                                  std::vector<tenon_gradient>* dx) {
  std::vector<tenon_gradient> sides;
  for (int32_t k = 0; k < 2; ++k) {
    sides.push_back(dy[k]);
    if (HasValue(dy[k])) continue;
    TENON_ASSIGN_OR_RETURN(sides[k], sums_.NoRows({node.id, k}, alike));
  }
  tenon_gradient& out = (*dx)[0];
  out.kind = TENON_GRADIENT_SLICES;
  for (tenon_output tenon_gradient::*end :
       {&tenon_gradient::dense, &tenon_gradient::indices, &tenon_gradient::dense_shape}) {
    TENON_ASSIGN_OR_RETURN(const NodeId merge,
                           builder_->AddRole("merge", {graph::FromC(sides[0].*end), graph::FromC(sides[1].*end)}));
    out.*end = graph::ToC(Edge{merge, 0});
  }
  return Status::Ok();
}

// The gradient goes the way that the value came: the merge's index says which.
Status NodeGradient::OfMerge(const Node& node, const std::vector<tenon_gradient>& dy, std::vector<tenon_gradient>* dx) {
  if (node.inputs.size() != 2)
    return Unimplemented(StrCat("a merge of ", node.inputs.size(), " values has no gradient; merge two at a time"));
  if (!HasValue(dy[0])) return Status::Ok();
  TENON_ASSIGN_OR_RETURN(const Edge dense, sums_.Densify(dy[0]));
  TENON_ASSIGN_OR_RETURN(const NodeId second,
                         builder_->AddRole("cast", {Edge{node.id, 1}}, {{"DstT", AttrValue::Type(TENON_DT_BOOL)}}));
  TENON_ASSIGN_OR_RETURN(const NodeId gate, builder_->AddRole("switch", {dense, Edge{second, 0}}));
  for (int32_t i = 0; i < 2; ++i) (*dx)[i] = Dense({gate, i});
  return Status::Ok();
}

// A call of the function that the graph brings: with the inputs, then a gradient of each output; or with these alone,
// as a SavedModel keeps a gradient of its own.
Status NodeGradient::ByFunction(const Node& node, const std::string& gradient, const std::vector<tenon_gradient>& dy,
                                std::vector<tenon_gradient>* dx) {
  graph::Graph& graph = builder_->graph();
  const auto function = graph.library().find(gradient);
  if (function == graph.library().end())
    return NotFound(StrCat("its gradient is the function '", gradient, "', which the graph does not have"));
  const bool of_outputs_alone =
      !node.has(TENON_OP_REMOTE) && !node.inputs.empty() && function->second->inputs.size() == dy.size();
  std::vector<Edge> inputs = of_outputs_alone ? std::vector<Edge>() : node.inputs;
  for (size_t k = 0; k < dy.size(); ++k) {
    TENON_ASSIGN_OR_RETURN(const Edge dense, sums_.DenseOrZeros(dy[k], {node.id, static_cast<int32_t>(k)}));
    inputs.push_back(dense);
  }
  const std::vector<NodeId> before = builder_->controls();
  builder_->set_controls(sums_.Controls());
  const auto call = AddGradientCall(builder_, node, gradient, std::move(inputs));
  builder_->set_controls(before);
  if (!call.ok()) return Status(call.status()).Annotate(StrCat("a call of '", gradient, "', which is its gradient"));
  const size_t first = node.has(TENON_OP_REMOTE) ? 1 : 0;  // of the function's inputs
  const size_t given = graph.node(*call).output_types.size(), wanted = dx->size() - first;
  if (given != wanted)
    return InvalidArgument(
        StrCat("'", gradient, "', which is its gradient, gives ", given, " values for ", wanted, " inputs"));
  for (size_t i = first; i < dx->size(); ++i) {
    if (!MayCarry(BaseType(graph.TypeOf(node.inputs[i])))) continue;
    (*dx)[i] = Dense({*call, static_cast<int32_t>(i - first)});
    TENON_RETURN_IF_ERROR(
        CheckOutput(StrCat("'", gradient, "' gives input ", i - first).c_str(), (*dx)[i].dense, node.input_types[i]));
  }
  return Status::Ok();
}

// The op's own, or another package's; no function: it has none.
GradientEntry NodeGradient::FunctionOf(const graph::OpDef& op) const {
  if (op.c != nullptr && op.c->gradient != nullptr) return {op.c->gradient, op.plugin};
  if (op.c == nullptr || op.has(TENON_OP_NO_GRADIENT) || op.has(TENON_OP_IDENTITY)) return {};
  return builder_->graph().registry().FindGradient(op.name);
}

Status NodeGradient::OfOp(const Node& node, const std::vector<tenon_gradient>& dy, std::vector<tenon_gradient>* dx) {
  const GradientEntry gradient = FunctionOf(*node.op);
  if (gradient.gradient != nullptr) return CallFunction(node, gradient, dy, dx);
  if (node.has(TENON_OP_NO_GRADIENT)) return Status::Ok();
  if (!node.has(TENON_OP_IDENTITY))
    return Status(Code::kUnimplemented,
                  StrCat("op '", node.op->name, "' of plugin '", node.op->package, "' has no gradient"));
  for (size_t i = 0; i < dx->size() && i < dy.size(); ++i) (*dx)[i] = dy[i];
  return Status::Ok();
}

tenon_status* NodeGradient::DenseDy(const tenon_gradient_args* args, int32_t index, tenon_output* out_output) {
  auto* host = static_cast<HostArgs*>(args->host);
  if (index < 0 || index >= args->output_count)
    return Internal(StrCat("its gradient asked for dy ", index, " of ", args->output_count)).release();
  auto edge = host->self->sums_.DenseOrZeros(args->dy[index], {host->node->id, index});
  if (!edge.ok()) return Status(edge.status()).release();
  *out_output = graph::ToC(*edge);
  return nullptr;
}

Status NodeGradient::CallFunction(const Node& node, const GradientEntry& gradient,
                                  const std::vector<tenon_gradient>& dy, std::vector<tenon_gradient>* dx) {
  // Gradient functions rely on what the op's shape function has checked; a node that cannot run has no gradient.
  TENON_RETURN_IF_ERROR(builder_->Check(node.id));
  std::vector<tenon_output> inputs, outputs;
  for (const Edge& edge : node.inputs) inputs.push_back(graph::ToC(edge));
  for (size_t k = 0; k < node.output_types.size(); ++k)
    outputs.push_back({node.id.number(), static_cast<int32_t>(k), 0});
  HostArgs host{this, &node};
  tenon_gradient_args args = {TENON_HEAD(tenon_gradient_args), builder_->c(), graph::NodeServices(), &node,
                              inputs.data(), outputs.data(), dy.data(), dx->data(), static_cast<int32_t>(inputs.size()),
                              static_cast<int32_t>(outputs.size()), &DenseDy, &host, Span(builder_->scope()), nullptr};
  TENON_RETURN_IF_ERROR(gradient.plugin->Call("gradient", &node.name, &node.op->name, [&](tenon_plugin_self* self) {
    args.self = self;
    return gradient.gradient(&args);
  }));
  for (size_t i = 0; i < dx->size(); ++i)
    if (Status status = Check(node, i, (*dx)[i]); !status.ok())
      return std::move(status).Annotate(
          StrCat(DescribePlugin(gradient.plugin->id()), ": its gradient() gave input ", i));
  return Status::Ok();
}

// That what a plugin's gradient function gave for an input is there, and a gradient of it.
Status NodeGradient::Check(const Node& node, size_t input, const tenon_gradient& gradient) const {
  if (gradient.kind > TENON_GRADIENT_NOT_DIFFERENTIABLE)
    return Internal(StrCat("a gradient of kind ", gradient.kind, ", which does not exist"));
  if (gradient.reserved != 0) return Internal("a gradient whose reserved member is not 0");
  if (gradient.kind == TENON_GRADIENT_DENSE)
    return CheckOutput("the gradient", gradient.dense, node.input_types[input]);
  if (gradient.kind != TENON_GRADIENT_SLICES) return Status::Ok();
  TENON_RETURN_IF_ERROR(CheckOutput("the values", gradient.dense, node.input_types[input]));
  TENON_RETURN_IF_ERROR(CheckOutput("the indices", gradient.indices, TENON_DT_INVALID));
  return CheckOutput("the shape", gradient.dense_shape, TENON_DT_INVALID);
}

// type: of the input; what is no plain value may have a gradient of another type.
Status NodeGradient::CheckOutput(const char* what, const tenon_output& output, DType type) const {
  const graph::Graph& graph = builder_->graph();
  if (!Within(output.node, graph.size()))
    return Internal(StrCat(what, " at node ", output.node, "; the graph has ", graph.size(), " nodes"));
  const Node& node = graph.node(NodeId(output.node));
  if (!Within(output.index, node.output_types.size()))
    return Internal(StrCat(what, " at output ", output.index, " of ", node.Describe(), ", which has ",
                           node.output_types.size(), " outputs"));
  const DType given = BaseType(node.output_types[output.index]);
  if (IsPlain(BaseType(type)) && type != TENON_DT_INVALID && given != BaseType(type))
    return Internal(
        StrCat(what, " at ", node.Describe(), ", which is ", TypeName(given), " and not ", TypeName(BaseType(type))));
  return Status::Ok();
}

}  // namespace tenon::grad
