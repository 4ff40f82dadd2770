// SPDX-License-Identifier: Apache-2.0
// What an op does to elements ("Properties" in tenon/op.h): parsed once from its definition.
#ifndef TENON_CORE_GRAPH_OP_PROPERTIES_H_
#define TENON_CORE_GRAPH_OP_PROPERTIES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "tenon/graph.h"

namespace tenon::graph {

inline constexpr uint64_t kKnownProperties = (TENON_PROPERTY_STEERS << 1) - 1;

struct OpProperties {
  bool is_said = false;           // else all that is here follows from the op's traits
  uint64_t flags = 0;             // TENON_PROPERTY_*
  std::vector<size_t> elements;   // arguments whose elements the outputs' are made of
  std::vector<size_t> rows;       // arguments that may be cut along dim 0
  int64_t axes_argument = -1;     // of a reduction; -1: axes_attr, or all
  std::string axes_attr, keep_dims_attr;
  std::string formula;            // as words (tenon/formula.h); empty: none is said
  bool operator==(const OpProperties&) const = default;
};

// What the names in the text may be.
struct PropertyNames {
  std::vector<std::string> inputs;  // the op's arguments
  std::vector<bool> are_lists;      // of them
  std::vector<std::string> types;   // of them: equal texts are equal types in every node
  bool has_one_output = true;       // which is no list
  std::string output_type, truth_type;
  std::function<uint32_t(const std::string&)>
      kind_of_attr;  // TENON_ATTR_*; TENON_ATTR_NONE: there is no such attribute
};

// Errors name the term.
Result<OpProperties> ParseProperties(std::string_view text, const PropertyNames& names);

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_OP_PROPERTIES_H_
