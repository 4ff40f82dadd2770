// SPDX-License-Identifier: Apache-2.0
// What an op's signature text says (the language stands in op.h), for tools that show or wrap ops.
#ifndef TENON_CLI_SIGNATURE_H_
#define TENON_CLI_SIGNATURE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/tenon.h"

namespace tenon::cli {

// "x: T", "values: N * T", "ref: Ref(T)", "rest: Tlist".
struct Argument {
  std::string name;
  std::string type;         // "T", "int32", "Tlist"
  std::string number_attr;  // "N"; empty when it is one tensor or a type list
  bool is_type_list = false;
  bool is_reference = false;
  bool is_list() const { return is_type_list || !number_attr.empty(); }
};

// "axis: int = 0", "strides: list(int) >= 4".
struct Attribute {
  std::string name;
  std::string type;  // string int float bool type shape tensor func, without list()
  bool is_list = false;
  std::optional<std::string> default_text;
  std::vector<std::string> allowed = {};  // names of types, groups written out, or strings; none: any
  std::optional<int64_t> minimum = {};    // of an int, or of a list's length
};

struct OpSignature {
  std::string op;
  std::string doc;
  std::vector<Argument> inputs;
  std::vector<Argument> outputs;
  std::vector<Attribute> attributes;

  const Attribute* FindAttribute(std::string_view name) const;
  // Whether the inputs determine the attribute, so that nobody need give it.
  bool IsInferred(std::string_view attribute) const;
};

// Errors name the op and the piece of text.
host::Result<OpSignature> ParseSignature(const tenon_op_info& info);

// Elements of a list in brackets, or any text in which commas inside quotes, braces and brackets do not split.
std::vector<std::string> SplitOutside(std::string_view text, char separator);
std::string_view Trim(std::string_view text);

}  // namespace tenon::cli

#endif  // TENON_CLI_SIGNATURE_H_
