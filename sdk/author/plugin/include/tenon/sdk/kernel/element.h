// SPDX-License-Identifier: Apache-2.0
// Element types of kernels: the C++ type of a dtype, and dispatch from one to the other. Failures are thrown as in
// kernel.h.
#ifndef TENON_SDK_KERNEL_ELEMENT_H_
#define TENON_SDK_KERNEL_ELEMENT_H_

#include <complex>
#include <cstdint>
#include <type_traits>

#include "tenon/sdk/kernel/half.h"
#include "tenon/sdk/kernel/kernel.h"

namespace tenon::sdk {

template <class T>
inline constexpr bool kIsComplex<std::complex<T>> = true;

// A type as an argument.
template <class T>
struct Tag {
  using type = T;
};

// The dtype of a C++ type; of no others than these.
template <class T>
struct DtypeOf;
template <> struct DtypeOf<float> { static constexpr uint32_t value = TENON_DT_FLOAT; };
template <> struct DtypeOf<double> { static constexpr uint32_t value = TENON_DT_DOUBLE; };
template <> struct DtypeOf<int8_t> { static constexpr uint32_t value = TENON_DT_INT8; };
template <> struct DtypeOf<int16_t> { static constexpr uint32_t value = TENON_DT_INT16; };
template <> struct DtypeOf<int32_t> { static constexpr uint32_t value = TENON_DT_INT32; };
template <> struct DtypeOf<int64_t> { static constexpr uint32_t value = TENON_DT_INT64; };
template <> struct DtypeOf<uint8_t> { static constexpr uint32_t value = TENON_DT_UINT8; };
template <> struct DtypeOf<uint16_t> { static constexpr uint32_t value = TENON_DT_UINT16; };
template <> struct DtypeOf<uint32_t> { static constexpr uint32_t value = TENON_DT_UINT32; };
template <> struct DtypeOf<uint64_t> { static constexpr uint32_t value = TENON_DT_UINT64; };
template <> struct DtypeOf<std::complex<float>> { static constexpr uint32_t value = TENON_DT_COMPLEX64; };
template <> struct DtypeOf<std::complex<double>> { static constexpr uint32_t value = TENON_DT_COMPLEX128; };
template <> struct DtypeOf<bool> { static constexpr uint32_t value = TENON_DT_BOOL; };
template <> struct DtypeOf<Half> { static constexpr uint32_t value = TENON_DT_HALF; };
template <> struct DtypeOf<Bfloat16> { static constexpr uint32_t value = TENON_DT_BFLOAT16; };

// A set of types: constraint list and dispatch in one, so that the two cannot disagree.
template <class... Ts>
struct Types {
  // function(Tag<T>{}) for the T of dtype; UNIMPLEMENTED where none has it.
  template <class Function>
  static void Dispatch(uint32_t dtype, Function&& function) {
    const bool found = ((dtype == DtypeOf<Ts>::value ? (function(Tag<Ts>{}), true) : false) || ...);
    if (!found) {
      Fail(TENON_UNIMPLEMENTED, "no kernel for dtype ", TypeName(dtype));
    }
  }
  template <FixedString kAttr>
  using Constraint = Allowed<kAttr, DtypeOf<Ts>::value...>;
  // These and more.
  template <class... More>
  using And = Types<Ts..., More...>;
  using AndComplex = And<std::complex<float>, std::complex<double>>;
};

using Reals = Types<float, double, Half, Bfloat16>;
// TensorFlow's realnumbertype.
using Numbers =
    Types<float, double, int32_t, int64_t, Half, Bfloat16, uint8_t, int8_t, int16_t, uint16_t, uint32_t, uint64_t>;
using Indices = Types<int32_t, int64_t>;

// Every dtype whose elements are plain memory.
template <FixedString kAttr>
using PlainConstraint =
    Allowed<kAttr, TENON_DT_FLOAT, TENON_DT_DOUBLE, TENON_DT_INT32, TENON_DT_INT64, TENON_DT_BOOL, TENON_DT_HALF,
                 TENON_DT_BFLOAT16, TENON_DT_UINT8, TENON_DT_INT8, TENON_DT_INT16, TENON_DT_UINT16, TENON_DT_UINT32,
                 TENON_DT_UINT64, TENON_DT_COMPLEX64, TENON_DT_COMPLEX128, TENON_DT_QINT8, TENON_DT_QUINT8,
                 TENON_DT_QINT32, TENON_DT_QINT16, TENON_DT_QUINT16, TENON_DT_FLOAT8_E5M2, TENON_DT_FLOAT8_E4M3FN>;

// function(Tag<U>{}) where U is an unsigned number, or Bytes16, of the dtype's size: for what only moves elements. A
// string's is its cell of 16 bytes, whose offset holds in its own tensor alone. UNIMPLEMENTED for resources and
// variants.
template <class Function>
void DispatchSize(uint32_t dtype, Function&& function) {
  const uint64_t size = dtype == TENON_DT_STRING ? 16 : ElementSize(dtype);
  switch (size) {
    case 1: return function(Tag<uint8_t>{});
    case 2: return function(Tag<uint16_t>{});
    case 4: return function(Tag<uint32_t>{});
    case 8: return function(Tag<uint64_t>{});
    case 16: return function(Tag<Bytes16>{});
    default: Fail(TENON_UNIMPLEMENTED, "no kernel moves elements of dtype ", TypeName(dtype));
  }
}

// Element i of an index tensor of dtype int32 or int64 (also int16, int8 and uint8), in host memory; i is not checked.
// UNIMPLEMENTED for others.
inline int64_t IndexAt(const void* data, uint32_t dtype, int64_t i) {
  switch (dtype) {
    case TENON_DT_INT32: return static_cast<const int32_t*>(data)[i];
    case TENON_DT_INT64: return static_cast<const int64_t*>(data)[i];
    case TENON_DT_INT16: return static_cast<const int16_t*>(data)[i];
    case TENON_DT_INT8: return static_cast<const int8_t*>(data)[i];
    case TENON_DT_UINT8: return static_cast<const uint8_t*>(data)[i];
    default: Fail(TENON_UNIMPLEMENTED, "indices of dtype ", TypeName(dtype));
  }
}

// Pairs {input, output} for Traits::in_place of kernels whose output 0 may use the memory of input 0, or of either.
inline constexpr tenon_in_place kInPlaceFirst[] = {{0, 0}};
inline constexpr tenon_in_place kInPlaceEither[] = {{0, 0}, {1, 0}};


}  // namespace tenon::sdk

#endif  // TENON_SDK_KERNEL_ELEMENT_H_
