// SPDX-License-Identifier: Apache-2.0
// Element types of kernels: half and bfloat16, the C++ type of a dtype, and dispatch from one to the other.
//
// Half and Bfloat16 store 16 bits and compute as float: every operation goes through a conversion.
#ifndef TENON_SDK_ELEMENT_H_
#define TENON_SDK_ELEMENT_H_

#include <bit>
#include <complex>
#include <cstdint>
#include <type_traits>

#include "tenon/sdk/kernel.h"

namespace tenon::sdk {

struct Half {
  Half() = default;
  template <class Number>
    requires std::is_arithmetic_v<Number>
  constexpr explicit Half(Number value) : bits(FromFloat(static_cast<float>(value))) {}
  constexpr operator float() const {  // NOLINT(google-explicit-constructor)
#if defined(__CUDA_ARCH__)
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#elif defined(__FLT16_MANT_DIG__)
    return static_cast<float>(std::bit_cast<_Float16>(bits));
#else
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t exponent = (bits >> 10) & 31u;
    const uint32_t mantissa = bits & 0x3ffu;
    if (exponent == 31u) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
    if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
#endif
  }
  static constexpr uint16_t FromFloat(float value) {
#if defined(__CUDA_ARCH__)
    uint16_t rounded;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(rounded) : "f"(value));
    return rounded;
#elif defined(__FLT16_MANT_DIG__)
    return std::bit_cast<uint16_t>(static_cast<_Float16>(value));
#else
    // Round to nearest even through float arithmetic (Fabian Giesen's method).
    uint32_t x = std::bit_cast<uint32_t>(value);
    const uint32_t sign = x & 0x80000000u;
    x ^= sign;
    uint32_t result;
    if (x >= 0x47800000u) {
      result = x > 0x7f800000u ? 0x7e00u : 0x7c00u;
    } else if (x < 0x38800000u) {
      result = std::bit_cast<uint32_t>(std::bit_cast<float>(x) + 0.5f) - 0x3f000000u;
    } else {
      result = (x + 0xc8000fffu + ((x >> 13) & 1u)) >> 13;
    }
    return static_cast<uint16_t>(result | (sign >> 16));
#endif
  }
  uint16_t bits;
};

struct Bfloat16 {
  Bfloat16() = default;
  template <class Number>
    requires std::is_arithmetic_v<Number>
  constexpr explicit Bfloat16(Number value) : bits(FromFloat(static_cast<float>(value))) {}
  constexpr operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }  // NOLINT
  static constexpr uint16_t FromFloat(float value) {
    const uint32_t x = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (x + 0x7fffu + ((x >> 16) & 1u)) >> 16;
    return static_cast<uint16_t>(value != value ? 0x7fc0u : rounded);
  }
  uint16_t bits;
};

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>;
template <class T>
inline constexpr bool kIsReal = std::is_floating_point_v<T> || kIsHalf<T>;

template <class T>
inline constexpr bool kIsComplex = false;
template <class T>
inline constexpr bool kIsComplex<std::complex<T>> = true;

// What a T is computed and summed in.
template <class T>
using Wide = std::conditional_t<kIsHalf<T>, float, T>;

// Numbers of any kind to any kind; out of range and NaN to integer give the lowest value, as x86 does.
template <class To, class From>
constexpr To Convert(From from) {
  if constexpr (kIsComplex<From>) {  // a complex number's real part
    if constexpr (kIsComplex<To>) {
      return To(from);
    } else {
      return Convert<To>(from.real());
    }
  } else if constexpr (kIsComplex<To>) {
    return To(Convert<typename To::value_type>(from));
  } else if constexpr (std::is_same_v<To, bool>) {
    return static_cast<Wide<From>>(from) != Wide<From>(0);
  } else if constexpr (kIsReal<From> && std::is_integral_v<To>) {
    // A conversion that does not fit is undefined in C++: go through a 64-bit integer that was range-checked.
    const auto wide = static_cast<Wide<From>>(from);
    if constexpr (std::is_same_v<To, uint64_t>) {
      if (wide >= Wide<From>(0x1p63) && wide < Wide<From>(0x1p64)) return static_cast<uint64_t>(wide);
    }
    const bool fits = wide >= Wide<From>(-0x1p63) && wide < Wide<From>(0x1p63);
    const int64_t integer = fits ? static_cast<int64_t>(wide) : INT64_MIN;
    if constexpr (sizeof(To) == 4 && std::is_signed_v<To>) {
      return integer >= INT32_MIN && integer <= INT32_MAX ? static_cast<To>(integer) : INT32_MIN;
    } else {
      return static_cast<To>(integer);
    }
  } else if constexpr (kIsHalf<To>) {
    return To(static_cast<float>(static_cast<Wide<From>>(from)));
  } else {
    return static_cast<To>(static_cast<Wide<From>>(from));
  }
}

template <class T>
struct Tag {
  using type = T;
};

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
  // function(Tag<T>{}) for the T of dtype.
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
using Numbers = Types<float, double, int32_t, int64_t, Half, Bfloat16, uint8_t, int8_t, int16_t, uint16_t, uint32_t, uint64_t>;
using Indices = Types<int32_t, int64_t>;

// Every dtype whose elements are plain memory.
template <FixedString kAttr>
using PlainConstraint =
    Allowed<kAttr, TENON_DT_FLOAT, TENON_DT_DOUBLE, TENON_DT_INT32, TENON_DT_INT64, TENON_DT_BOOL, TENON_DT_HALF,
                 TENON_DT_BFLOAT16, TENON_DT_UINT8, TENON_DT_INT8, TENON_DT_INT16, TENON_DT_UINT16, TENON_DT_UINT32,
                 TENON_DT_UINT64, TENON_DT_COMPLEX64, TENON_DT_COMPLEX128, TENON_DT_QINT8, TENON_DT_QUINT8,
                 TENON_DT_QINT32, TENON_DT_QINT16, TENON_DT_QUINT16, TENON_DT_FLOAT8_E5M2, TENON_DT_FLOAT8_E4M3FN>;

// An element of kSize bytes that is only moved; no alignment beyond its bytes is assumed of 16.
struct Bytes16 {
  uint64_t low, high;
};

// function(Tag<U>{}) where U is an unsigned number, or Bytes16, of the dtype's size.
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

// Element i of an index tensor of dtype int32 or int64 (also int16, int8 and uint8).
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

// Pairs for kernels whose output may use an input's memory.
inline constexpr tenon_in_place kInPlaceFirst[] = {{0, 0}};
inline constexpr tenon_in_place kInPlaceEither[] = {{0, 0}, {1, 0}};


}  // namespace tenon::sdk

#endif  // TENON_SDK_ELEMENT_H_
