// SPDX-License-Identifier: Apache-2.0
#include "core/grad/call_gradient.h"

#include <memory>
#include <utility>

#include "core/graph/function/function_body.h"
#include "core/graph/function/function_def.h"

namespace tenon::grad {

using graph::AttrMap;
using graph::AttrValue;
using graph::Node;
using graph::NodeId;

std::string GradientOfCall(const graph::Graph& graph, const Node& node) {
  if (!node.has(TENON_OP_CALL)) return {};
  auto function = graph.library().find(node.op->name);
  if (const AttrValue* f = node.FindAttr("f"); function == graph.library().end() && f != nullptr && f->kind() == TENON_ATTR_FUNCTION)
    function = graph.library().find(f->function().name);
  return function == graph.library().end() ? std::string() : function->second->gradient;
}

namespace {

// Attributes of the call, or of its attribute f, that the gradient's function has too.
AttrMap BoundBy(const Node& call, const graph::OpDef& op) {
  AttrMap bound;
  const auto take = [&](const AttrMap& attrs) {
    for (const auto& [name, value] : attrs)
      if (op.FindAttr(name) != nullptr) bound.emplace(name, value);
  };
  if (const AttrValue* f = call.FindAttr("f"); f != nullptr && f->kind() == TENON_ATTR_FUNCTION && f->function().attrs) take(*f->function().attrs);
  take(call.attrs);
  return bound;
}

}  // namespace

Result<NodeId> AddGradientCall(graph::Builder* builder, const Node& call, const std::string& gradient, std::vector<graph::Edge> inputs) {
  graph::Graph& graph = builder->graph();
  TENON_ASSIGN_OR_RETURN(const graph::OpDef* const op, graph.FunctionOp(gradient));
  AttrMap bound = BoundBy(call, *op);
  if (!call.has(TENON_OP_REMOTE)) return builder->Add(gradient, std::move(inputs), std::move(bound));
  if (call.op->outputs.size() != 1 || call.op->outputs[0].type_list_attr.empty())
    return Unimplemented(StrCat("its op gives no list of results, by which '", gradient, "' could be called where it runs"));
  TENON_ASSIGN_OR_RETURN(graph::FunctionSignature signature, graph::SignatureOf(*graph.library().at(gradient), bound));
  AttrMap attrs{{"f", AttrValue::Function({gradient, std::make_shared<const AttrMap>(std::move(bound))})},
                {call.op->outputs[0].type_list_attr, AttrValue::Types(std::move(signature.results))}};
  return builder->Add(call.op->name, std::move(inputs), std::move(attrs));
}

}  // namespace tenon::grad
