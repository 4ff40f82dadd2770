// SPDX-License-Identifier: Apache-2.0
// Element types: TensorFlow's numbers, names and sizes; ours for packed elements and scales; those of vendors, which
// say their size.
#ifndef TENON_CORE_TENSOR_DTYPE_H_
#define TENON_CORE_TENSOR_DTYPE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "tenon/dtype.h"
#include "tenon/tensor.h"

namespace tenon {

using DType = uint32_t;

inline bool IsRef(DType dtype) { return dtype - (TENON_DT_REF + 1) < TENON_DT_REF - 1; }
inline bool IsVendorType(DType dtype) { return (dtype & TENON_DT_VENDOR_FLAG) != 0; }
inline DType BaseType(DType dtype) { return IsRef(dtype) ? dtype - TENON_DT_REF : dtype; }

// Whether the number is a type (or a reference to one).
bool IsValidType(DType dtype);
// Bits of one element as it stands in memory (a cell for strings and handles); 0 for an unknown type.
uint32_t BitsOf(DType dtype);
// Bytes of one element; 0 for an unknown type, and for packed ones.
inline uint32_t SizeOf(DType dtype) { return BitsOf(dtype) / 8; }
// Bytes of so many elements, which fit in 64 bits as bits do.
inline uint64_t BytesOfElements(DType dtype, uint64_t count) { return (count * BitsOf(dtype) + 7) / 8; }
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
