// SPDX-License-Identifier: Apache-2.0
// Element types: TensorFlow's numbers, names and sizes.
#ifndef TENON_CORE_TENSOR_DTYPE_H_
#define TENON_CORE_TENSOR_DTYPE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "tenon/dtype.h"
#include "tenon/tensor.h"

namespace tenon {

using DType = uint32_t;

inline bool IsRef(DType dtype) { return dtype > TENON_DT_REF; }
inline DType BaseType(DType dtype) { return IsRef(dtype) ? dtype - TENON_DT_REF : dtype; }

// Whether the number is a type (or a reference to one).
bool IsValidType(DType dtype);
// Bytes of one element as it stands in memory (a cell for strings and handles); 0 for an unknown type.
uint32_t SizeOf(DType dtype);
// Whether elements are plain bytes (not strings, resources or variants).
bool IsPlain(DType dtype);
bool IsFloating(DType dtype);  // half, bfloat16, float, double, complex: gradients flow
// "float", "int32", "float_ref" as in signatures; TypeFromName takes also "DT_FLOAT". 0 when unknown.
std::string TypeName(DType dtype);
DType TypeFromName(std::string_view name);
tenon_dl_data_type ToDlType(DType dtype);
// TENON_DT_INVALID when there is none, vectors (lanes) among them.
DType FromDlType(tenon_dl_data_type type);

}  // namespace tenon

#endif  // TENON_CORE_TENSOR_DTYPE_H_
