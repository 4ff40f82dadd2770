// SPDX-License-Identifier: Apache-2.0
// Steps without state and without parts, as nodes.
#ifndef TENON_TESTS_CROSSINGS_CALCULATION_H_
#define TENON_TESTS_CROSSINGS_CALCULATION_H_

#include <vector>

#include "tests/crossings/program.h"

namespace tenon::crossings {

// A value as edges: one, but two of a sparse or ragged one.
using Value = std::vector<host::Output>;
inline size_t PartsOf(const Type& type) { return type.kind == Kind::kSparse || type.kind == Kind::kRagged ? 2 : 1; }

class Calculation {
 public:
  explicit Calculation(bool smooth) : smooth_(smooth) {}

  std::vector<Value> Make(host::Graph& g, const Step& step, const std::vector<Type>& types,
                          const std::vector<Value>& in) const;
  // What is fetched of a value: tensors, and of one shape.
  std::vector<host::Output> Seen(host::Graph& g, const Type& type, const Value& value) const;
  // The sum of x times a pattern, so that no element counts as another.
  host::Output Total(host::Graph& g, const host::Output& x, const Dims& dims) const;
  host::Output Scalar(host::Graph& g, DType dtype, double number) const;
  // Of a function that takes the value's edge `part`.
  host::Argument ArgumentOf(const Type& type, size_t part) const;

 private:
  host::Output Constant(host::Graph& g, DType dtype, const Dims& dims, double number) const;
  // Back into bounds: the sum of `count` values.
  host::Output Bounded(host::Graph& g, DType dtype, const host::Output& x, int64_t count = 1) const;
  host::Output Cast(host::Graph& g, const Type& from, const Type& to, const host::Output& x) const;
  host::Output SumOf(host::Graph& g, const host::Output& x, const Dims& dims) const;
  Value ToSparse(host::Graph& g, DType dtype, const host::Output& x) const;
  Value ToRagged(host::Graph& g, const host::Output& x, const host::Output& lengths) const;

  bool smooth_;
};

}  // namespace tenon::crossings

#endif  // TENON_TESTS_CROSSINGS_CALCULATION_H_
