// SPDX-License-Identifier: Apache-2.0
// What an op does to elements ("Properties" in tenon/op.h): parsed once from its definition, and told of nodes.
#ifndef TENON_CORE_GRAPH_OP_PROPERTIES_H_
#define TENON_CORE_GRAPH_OP_PROPERTIES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "tenon/graph.h"

namespace tenon::graph {

struct ArgRange;
struct OpDef;

inline constexpr uint64_t kKnownProperties = (TENON_PROPERTY_KEEPS_ZERO_SIGN << 1) - 1;

struct OpProperties {
  uint64_t flags = 0;             // TENON_PROPERTY_*
  std::vector<size_t> elements;   // arguments (OpDef::inputs) whose elements the outputs' are made of
  std::vector<size_t> rows;       // arguments that may be cut along dim 0
  int64_t axes_argument = -1;     // of a reduction; -1: axes_attr, or all
  std::string axes_attr, keep_dims_attr;
  bool operator==(const OpProperties&) const = default;
};

// op has its inputs and attributes already. Errors name the term.
Result<OpProperties> ParseProperties(std::string_view text, const OpDef& op);

// Of a node of the op whose arguments stand at `ranges`. Spans live as long as the op.
tenon_node_properties PropertiesOfNode(const OpDef& op, const std::vector<ArgRange>& ranges);

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_OP_PROPERTIES_H_
