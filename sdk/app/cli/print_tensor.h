// SPDX-License-Identifier: Apache-2.0
// Tensors as text, the way numpy shows them, and single elements.
#ifndef TENON_CLI_PRINT_TENSOR_H_
#define TENON_CLI_PRINT_TENSOR_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "tenon/tenon.h"

namespace tenon::cli {

// One element: "3", "0.25", "True"; a string in quotes, with escapes for what is not printable.
std::string FormatElement(const host::Tensor& tensor, uint64_t index);

// Nested brackets; when there are more than `most` elements, only the first and last three of each dimension.
std::string FormatTensor(const host::Tensor& tensor, int64_t most = 1000);

// The bits of a half or bfloat16 as a float.
float HalfToFloat(uint16_t bits);
float Bfloat16ToFloat(uint16_t bits);

}  // namespace tenon::cli

#endif  // TENON_CLI_PRINT_TENSOR_H_
