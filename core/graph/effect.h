// SPDX-License-Identifier: Apache-2.0
#ifndef TENON_CORE_GRAPH_EFFECT_H_
#define TENON_CORE_GRAPH_EFFECT_H_

#include "core/graph/node.h"

namespace tenon::graph {

// What a node does beside giving values, which may be known or wanted by nobody: it writes, or has a state and no output, as assertions have.
inline bool HasEffect(const Node& node) {
  return node.has(TENON_OP_WRITES_STATE | TENON_OP_IO) || (node.has(TENON_OP_STATEFUL) && node.output_types.empty());
}

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_EFFECT_H_
