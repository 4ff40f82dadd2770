// SPDX-License-Identifier: Apache-2.0
// A batch of Examples, or one, into columns.
#ifndef TENON_SDK_EXAMPLE_PARSE_H_
#define TENON_SDK_EXAMPLE_PARSE_H_

#include <string_view>
#include <vector>

#include "tenon/extras/example/columns.h"

namespace tenon::sdk::example {

struct ExampleColumns {
  std::vector<ListColumn> sparse, ragged;
  std::vector<DenseColumn> dense;
};

// single: one Example, whose outputs have no dim of the batch. names: of the rows, for messages; none, or as many.
void ParseExamples(const RunContext& c, const std::vector<std::string_view>& messages,
                   const std::vector<std::string_view>& names, bool single, ExampleColumns columns);

// A column of dense_shapes[i] and its fallback, checked as TensorFlow checks them. variable_allowed: the first dim may
// be unknown.
DenseColumn MakeDense(std::string_view key, uint32_t dtype, const Shape& shape, const tenon_tensor_view& fallback,
                      size_t i, bool variable_allowed);

}  // namespace tenon::sdk::example

#endif  // TENON_SDK_EXAMPLE_PARSE_H_
