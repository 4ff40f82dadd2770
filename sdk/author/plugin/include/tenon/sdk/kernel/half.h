// SPDX-License-Identifier: Apache-2.0
// Half and Bfloat16, what a type is computed in, and conversions between numbers of any kind.
//
// Both store 16 bits and compute as float: every operation goes through a conversion. This header and elementwise.h
// need the language and few small headers of its library, so that compilers of accelerators' code take them too, at run
// time as well.
#ifndef TENON_SDK_KERNEL_HALF_H_
#define TENON_SDK_KERNEL_HALF_H_

#include <bit>
#include <cstdint>
#include <type_traits>

namespace tenon::sdk {

// IEEE 754's binary16: 5 bits of exponent, 10 of mantissa. Rounds to nearest, ties to even; from 65520 on it is
// infinity. A new one without a value is uninitialised.
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

// A float's upper half: its range, 7 bits of mantissa. Rounds to nearest, ties to even.
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

// An element of 16 bytes that is only moved; no alignment beyond that of its halves is assumed.
struct Bytes16 {
  uint64_t low, high;
};

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>;
template <class T>
inline constexpr bool kIsReal = std::is_floating_point_v<T> || kIsHalf<T>;

// element.h, which may include the library's header, makes it true of std::complex.
template <class T>
inline constexpr bool kIsComplex = false;

// What a T is computed and summed in.
template <class T>
using Wide = std::conditional_t<kIsHalf<T>, float, T>;

// Numbers of any kind to any kind; out of range and NaN to integer give the lowest value, as x86 does (narrower ones
// than int32 and unsigned ones the lower bits of what int64 would be). To bool: whether it is not 0. Between halves it
// goes through float.
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

// To Half or Bfloat16, cut instead of rounded: Cast's attribute Truncate.
template <class To, class From>
constexpr To ConvertCut(From from) {
  const float value = static_cast<float>(static_cast<Wide<From>>(from));
  To result = To(0);
  if constexpr (std::is_same_v<To, Bfloat16>) {
    result.bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
  } else {
    result = To(value);
    // One step toward zero where rounding went away from it.
    const float rounded = static_cast<float>(result);
    if (value < 0 ? rounded < value : rounded > value) --result.bits;
  }
  return result;
}

}  // namespace tenon::sdk

#endif  // TENON_SDK_KERNEL_HALF_H_
