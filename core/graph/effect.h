// SPDX-License-Identifier: Apache-2.0
#ifndef TENON_CORE_GRAPH_EFFECT_H_
#define TENON_CORE_GRAPH_EFFECT_H_

#include <algorithm>

#include "core/graph/node.h"
#include "core/graph/op_def.h"

namespace tenon::graph {

// What a node does beside giving values, which may be known or wanted by nobody: it writes, or has a state and no
// output, as assertions have.
inline bool HasEffect(const Node& node) {
  return node.has(TENON_OP_WRITES_STATE | TENON_OP_IO) || (node.has(TENON_OP_STATEFUL) && node.output_types.empty());
}

// Whether nobody can tell that the node has run, but by its values: what has no state, makes a handle, or reads a
// variable. What takes from a queue, an iterator or a generator of numbers can be told.
inline bool OnlyGives(const Node& node) {
  if (HasEffect(node)) return false;
  const auto reads = [](const std::string& role) { return role == "read_variable" || role == "read_variable_rows"; };
  const auto is_handle = [](DType type) { return IsRef(type) || type == TENON_DT_RESOURCE; };
  return !node.has(TENON_OP_STATEFUL) || std::any_of(node.output_types.begin(), node.output_types.end(), is_handle) ||
         std::any_of(node.op->roles.begin(), node.op->roles.end(), reads);
}

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_EFFECT_H_
