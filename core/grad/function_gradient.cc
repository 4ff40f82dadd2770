// SPDX-License-Identifier: Apache-2.0
// Gradients of library functions, as functions. One may need the other: a body may hold the gradient of a function.
#include "core/grad/gradients.h"
#include "core/graph/function/make_function.h"

#include "core/grad/sums.h"
#include "core/graph/function/function_def.h"
#include "core/graph/graph.h"

namespace tenon::grad {
namespace {

using graph::AttrMap;
using graph::AttrValue;
using graph::Builder;
using graph::Edge;
using graph::FunctionDef;
using graph::FunctionRef;
using graph::Graph;
using graph::Node;
using graph::NodeSpec;

// The gradient of one function, built as a graph of its own.
class FunctionGradient {
 public:
  FunctionGradient(const Graph& whole, const Node& node, const FunctionRef& function)
      : node_(node), function_(function), graph_(&whole.registry()), builder_(&graph_) {
    graph_.library() = whole.library();
  }

  Result<FunctionDef> Build(std::string name) {
    TENON_RETURN_IF_ERROR(AddArguments());
    const size_t count = node_.output_types.size();
    const std::vector<Edge> xs(arguments_.begin(), arguments_.begin() + static_cast<ptrdiff_t>(count));
    TENON_ASSIGN_OR_RETURN(const graph::NodeId call,
                           builder_.Add(function_.name, xs, function_.attrs ? *function_.attrs : AttrMap(), "forward"));
    const std::vector<DType> results = graph_.node(call).output_types;
    if (arguments_.size() != count + results.size())
      return InvalidArgument(StrCat("it has ", arguments_.size(), " inputs: '", function_.name, "' takes ", count,
                                    " and gives ", results.size(), ", so that it needs ", count + results.size()));
    std::vector<Edge> ys, initial;
    for (size_t k = 0; k < results.size(); ++k) {
      if (!IsFloating(results[k])) continue;
      ys.push_back({call, static_cast<int32_t>(k)});
      initial.push_back(arguments_[count + k]);
    }
    std::vector<tenon_gradient> gradients(count, tenon_gradient{});
    if (!ys.empty() && !xs.empty()) {
      TENON_ASSIGN_OR_RETURN(gradients, AddGradients(&builder_, ys, xs, initial));
    }
    graph::FunctionSource source;
    source.name = std::move(name);
    for (const Edge& argument : arguments_) source.inputs.push_back({graph_.node(argument.node).name, argument});
    for (size_t i = 0; i < count; ++i) {
      TENON_ASSIGN_OR_RETURN(const Edge value, ValueOf(gradients[i], arguments_[i]));
      source.outputs.push_back({StrCat("gradient_", i), value});
    }
    AddEffects(&source);
    return graph::MakeFunction(graph_, std::move(source));
  }

  // The functions that this one calls may be new.
  const graph::FunctionLibrary& library() const { return graph_.library(); }

 private:
  Status AddArguments() {
    for (size_t i = 0; i < node_.input_types.size(); ++i) {
      AttrMap attrs{{"T", AttrValue::Type(BaseType(node_.input_types[i]))},
                    {"index", AttrValue::Int(static_cast<int64_t>(i))}};
      TENON_ASSIGN_OR_RETURN(const graph::NodeId id,
                             builder_.AddRole("argument", {}, std::move(attrs), StrCat("argument_", i)));
      arguments_.push_back({id, 0});
    }
    return Status::Ok();
  }

  Result<Edge> ValueOf(const tenon_gradient& gradient, Edge x) {
    if (gradient.kind == TENON_GRADIENT_DENSE || gradient.kind == TENON_GRADIENT_SLICES)
      return Densify(&builder_, gradient, {});
    TENON_ASSIGN_OR_RETURN(const graph::NodeId zeros, builder_.AddRole("zeros_like", {x}));
    return Edge{zeros, 0};
  }

  // What the function does besides computing, its gradient does too.
  void AddEffects(graph::FunctionSource* source) const {
    for (const graph::NodeId id : graph_.ids())
      if (graph_.node(id).has(TENON_OP_STATEFUL) && !graph_.node(id).has(TENON_OP_ARGUMENT))
        source->control_outputs.push_back({StrCat("effect_", source->control_outputs.size()), id});
  }

  const Node& node_;
  const FunctionRef& function_;
  Graph graph_;
  Builder builder_;
  std::vector<Edge> arguments_;  // of the gradient: the function's, then a gradient of each of its results
};

}  // namespace

namespace {

// Gradients of functions that are being made, one for the other: a body may hold the gradient of a function, its own
// too.
constexpr int kHighestDerivative = 24;
thread_local int derivatives = 0;
struct Derivative {
  Derivative() { ++derivatives; }
  ~Derivative() { --derivatives; }
};

}  // namespace

Result<std::unique_ptr<Node>> MakeGradientCall(Graph* graph, graph::NodeId id) {
  const Node& node = graph->node(id);
  if (derivatives == kHighestDerivative)
    return ResourceExhausted(StrCat(node.Describe(), ": gradients of functions lie in each other deeper than ",
                                    kHighestDerivative, "; a function whose body asks for its own gradient has none"));
  const Derivative deeper;
  const AttrValue* const f = node.FindAttr("f");
  if (f == nullptr || f->kind() != TENON_ATTR_FUNCTION)
    return InvalidArgument(StrCat(node.Describe(), ": its attribute 'f' names no function"));
  const FunctionRef& function = f->function();
  NodeSpec spec{nullptr, {}, node.inputs, node.controls, {}, node.device};
  const auto it = graph->library().find(function.name);
  if (it != graph->library().end() && !it->second->gradient.empty()) {
    TENON_ASSIGN_OR_RETURN(spec.op, graph->FunctionOp(it->second->gradient));
    if (function.attrs) spec.attrs = *function.attrs;
    return graph->Replace(id, std::move(spec));
  }
  std::string name;
  for (size_t i = 0; name.empty() || graph->library().contains(name); ++i)
    name = StrCat("gradient_of_", function.name, i == 0 ? "" : StrCat("_", i));
  FunctionGradient gradient(*graph, node, function);
  auto made = gradient.Build(name);
  if (!made.ok()) return Status(made.status()).Annotate(node.Describe());
  for (const auto& entry : gradient.library()) graph->library().insert(entry);
  graph->library().emplace(name, std::make_shared<const FunctionDef>(*std::move(made)));
  TENON_ASSIGN_OR_RETURN(spec.op, graph->FunctionOp(name));
  return graph->Replace(id, std::move(spec));
}

}  // namespace tenon::grad
