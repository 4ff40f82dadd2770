// SPDX-License-Identifier: Apache-2.0
// Constraints of op definitions ("rank(x) >= 2; dim(b, 0) == dim(value, -1)"): parsed once, checked by the core at the
// earliest moment at which the terms are known. The grammar stands in tenon/op.h.
#ifndef TENON_CORE_GRAPH_CONSTRAINT_H_
#define TENON_CORE_GRAPH_CONSTRAINT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace tenon::graph {

struct Term {
  enum class Kind { kInt, kName, kRank, kDim, kNumel, kValue, kElement, kPath, kAdd, kSubtract, kMultiply };
  Kind kind = Kind::kInt;
  int64_t number = 0;            // kInt, and the dim's index of kDim
  std::string name;              // an attribute, or an argument
  std::shared_ptr<Term> left;    // operands of kAdd, kSubtract, kMultiply
  std::shared_ptr<Term> right;
};

struct Constraint {
  std::string text;
  Term left;
  Term right;
  std::string comparison;
  // Whether kernels check it (it speaks of elements inside data).
  bool in_kernel = false;
  // "path(x)": it compares nothing, and says that the strings of x name files.
  bool is_path() const { return left.kind == Term::Kind::kPath; }
};

// What a check knows of a node. Each answers nothing when it is not known yet.
struct ConstraintFacts {
  std::function<std::optional<int64_t>(const std::string& name)> attr;
  std::function<std::optional<int64_t>(const std::string& argument)> rank;
  std::function<std::optional<int64_t>(const std::string& argument, int64_t index)> dim;
  std::function<std::optional<int64_t>(const std::string& argument)> numel;
  // All elements of a small integer input.
  std::function<std::optional<std::vector<int64_t>>(const std::string& argument)> values;
};

Result<std::vector<Constraint>> ParseConstraints(std::string_view text);

// INVALID_ARGUMENT with the constraint's text and the numbers found when it is known not to hold.
Status Check(const Constraint& constraint, const ConstraintFacts& facts);

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_CONSTRAINT_H_
