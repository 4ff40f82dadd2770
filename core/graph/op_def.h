// SPDX-License-Identifier: Apache-2.0
// Op definitions: what an op's signature says, parsed from the text of the C ABI.
#ifndef TENON_CORE_GRAPH_OP_DEF_H_
#define TENON_CORE_GRAPH_OP_DEF_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/plugin_instance.h"
#include "core/graph/attr.h"
#include "core/graph/constraint.h"
#include "core/graph/op_properties.h"
#include "tenon/op.h"

namespace tenon::graph {

struct ArgDef {
  std::string name;
  DType type = TENON_DT_INVALID;  // fixed type, or
  std::string type_attr;          // the type attribute, or
  std::string type_list_attr;     // the list(type) attribute
  std::string number_attr;        // so many tensors of one type
  bool is_ref = false;
  bool operator==(const ArgDef&) const = default;
};

struct AttrDef {
  std::string name;
  uint32_t kind = TENON_ATTR_NONE;  // TENON_ATTR_*, with TENON_ATTR_LIST
  std::optional<AttrValue> default_value;
  std::optional<int64_t> minimum;       // of an int, or of a list's length
  std::vector<DType> allowed_types;     // empty: any
  std::vector<std::string> allowed_strings;
};

struct OpDef {
  std::string name;
  std::vector<ArgDef> inputs;
  std::vector<ArgDef> outputs;
  std::vector<AttrDef> attrs;
  std::vector<Constraint> constraints;
  std::vector<std::string> roles;
  uint64_t traits = 0;
  OpProperties properties;
  std::string doc;
  std::string deprecation;
  std::string paths;  // inputs whose strings name files, "prefix, filename"
  int32_t deprecated_at = 0;
  int32_t version = 0;  // 0: it has none
  bool knows_dim_names = false;  // its shape function (dim_names.h)
  std::string package;  // the id of the plugin that brought it
  std::shared_ptr<PluginInstance> plugin;  // that its functions are called in; nullptr: it has none
  const tenon_op_definition* c = nullptr;

  bool has(uint64_t trait) const { return (traits & trait) != 0; }
  const AttrDef* FindAttr(std::string_view attr) const;
};

// Nodes that become dataflow before the step.
inline constexpr uint64_t kCallsFunctions = TENON_OP_CALL | TENON_OP_BRANCH | TENON_OP_WHILE | TENON_OP_GRADIENT;
// Whether the op says of which others it is made.
inline bool Decomposes(const OpDef& op) { return op.c != nullptr && op.c->decompose != nullptr; }
// Whether a node of it, or one that it becomes, is found again in the next step.
inline bool HoldsState(const OpDef& op) { return op.has(TENON_OP_STATEFUL | kCallsFunctions) || Decomposes(op); }

// Parses a definition; errors name the op and the piece of text.
Result<OpDef> ParseOpDef(const tenon_op_definition& definition);

// Whether two definitions mean the same (docs aside). kCompatible: `b` only adds attributes with defaults to `a`.
enum class Sameness { kEqual, kFirstLarger, kSecondLarger, kDifferent };
Sameness Compare(const OpDef& a, const OpDef& b, std::string* difference);

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_OP_DEF_H_
