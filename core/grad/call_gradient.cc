// SPDX-License-Identifier: Apache-2.0
#include "core/grad/call_gradient.h"

#include "core/graph/function_def.h"

namespace tenon::grad {

using graph::AttrMap;
using graph::AttrValue;
using graph::Node;

std::string GradientOfCall(const graph::Graph& graph, const Node& node) {
  if (!node.has(TENON_OP_CALL) || node.has(TENON_OP_REMOTE)) return {};
  auto function = graph.library().find(node.op->name);
  if (const AttrValue* f = node.FindAttr("f"); function == graph.library().end() && f != nullptr && f->kind() == TENON_ATTR_FUNCTION)
    function = graph.library().find(f->function().name);
  return function == graph.library().end() ? std::string() : function->second->gradient;
}

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

}  // namespace tenon::grad
