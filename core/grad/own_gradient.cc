// SPDX-License-Identifier: Apache-2.0
#include "core/grad/own_gradient.h"

#include <memory>
#include <utility>

#include "core/graph/function/function_body.h"
#include "core/graph/function/function_def.h"
#include "core/graph/function/function_library.h"

namespace tenon::grad {

using graph::AttrMap;
using graph::AttrValue;
using graph::Node;
using graph::NodeId;

OwnGradients::OwnGradients(const graph::Graph* graph) : graph_(*graph) {
  for (const std::string& message : graph->library().registered_gradients) {
    const graph::RegisteredGradient registered = graph::ReadRegisteredGradient(message);
    registered_.emplace(registered.op_type, registered.function);
  }
}

Result<std::string> OwnGradients::Of(const Node& node) const {
  constexpr uint64_t kByForm = TENON_OP_SWITCH | TENON_OP_MERGE | TENON_OP_ENTER | TENON_OP_EXIT |
                               TENON_OP_NEXT_ITERATION | TENON_OP_LOOP_CONDITION;
  if (node.has(kByForm)) return std::string();
  if (const AttrValue* const asked = node.FindAttr("_gradient_op_type");
      asked != nullptr && asked->kind() == TENON_ATTR_STRING) {
    if (const auto at = registered_.find(asked->s()); at != registered_.end()) return at->second;
    if (!node.has(graph::kCallsFunctions))
      return Unimplemented(
          StrCat("it asks for the gradient '", asked->s(),
                 "', which the graph does not bring (registered_gradients of its library): it was a function of the "
                 "program that "
                 "wrote the graph. Register one of that name, or save the model with custom gradients"));
  }
  if (const auto at = registered_.find(node.op->name); at != registered_.end()) return at->second;
  return OfFunction(node);
}

std::string OwnGradients::OfFunction(const Node& node) const {
  if (!node.has(TENON_OP_CALL)) return {};
  const graph::FunctionLibrary& library = graph_.library();
  auto function = library.find(node.op->name);
  if (const AttrValue* f = node.FindAttr("f");
      function == library.end() && f != nullptr && f->kind() == TENON_ATTR_FUNCTION)
    function = library.find(f->function().name);
  return function == library.end() ? std::string() : function->second->gradient;
}

namespace {

// Attributes of the node, or of its attribute f, that the gradient's function has too.
AttrMap BoundBy(const Node& call, const graph::OpDef& op) {
  AttrMap bound;
  const auto take = [&](const AttrMap& attrs) {
    for (const auto& [name, value] : attrs)
      if (op.FindAttr(name) != nullptr) bound.emplace(name, value);
  };
  if (const AttrValue* f = call.FindAttr("f"); f != nullptr && f->kind() == TENON_ATTR_FUNCTION && f->function().attrs)
    take(*f->function().attrs);
  take(call.attrs);
  return bound;
}

}  // namespace

Result<NodeId> AddGradientCall(graph::Builder* builder, const Node& node, const std::string& gradient,
                               std::vector<graph::Edge> inputs) {
  graph::Graph& graph = builder->graph();
  TENON_ASSIGN_OR_RETURN(const graph::OpDef* const op, graph.FunctionOp(gradient));
  AttrMap bound = BoundBy(node, *op);
  if (!node.has(TENON_OP_REMOTE)) return builder->Add(gradient, std::move(inputs), std::move(bound));
  if (node.op->outputs.size() != 1 || node.op->outputs[0].type_list_attr.empty())
    return Unimplemented(
        StrCat("its op gives no list of results, by which '", gradient, "' could be called where it runs"));
  TENON_ASSIGN_OR_RETURN(graph::FunctionSignature signature, graph::SignatureOf(*graph.library().at(gradient), bound));
  AttrMap attrs{{"f", AttrValue::Function({gradient, std::make_shared<const AttrMap>(std::move(bound))})},
                {node.op->outputs[0].type_list_attr, AttrValue::Types(std::move(signature.results))}};
  return builder->Add(node.op->name, std::move(inputs), std::move(attrs));
}

}  // namespace tenon::grad
