// SPDX-License-Identifier: Apache-2.0
// Numbers in every element type: float to half and bfloat16 and back, and one element's bytes. For ops, which need no
// half's arithmetic; kernels have half.h.
#ifndef TENON_SDK_NUMBER_H_
#define TENON_SDK_NUMBER_H_

#include <bit>
#include <cstdint>
#include <cstring>

#include "tenon/sdk/span.h"

namespace tenon::sdk {

// Rounds to nearest, ties to even. NaN stays NaN.
constexpr uint16_t ToBfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
constexpr float FromBfloat16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// Rounds to nearest, ties to even; too large becomes infinity. NaN stays NaN.
constexpr uint16_t ToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // from 65520 on
  if (magnitude < 0x33000000u) return static_cast<uint16_t>(sign);             // below half of the smallest
  const int exponent = static_cast<int>(magnitude >> 23);
  uint32_t mantissa = 0;
  uint32_t shift = 13;
  uint32_t half = 0;
  if (exponent < 113) {  // subnormal
    mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    shift = static_cast<uint32_t>(126 - exponent);
    half = mantissa >> shift;
  } else {
    mantissa = magnitude - (112u << 23);
    half = mantissa >> shift;
  }
  const uint32_t rest = mantissa & ((1u << shift) - 1u);
  const uint32_t middle = 1u << (shift - 1u);
  if (rest > middle || (rest == middle && (half & 1u) != 0)) ++half;
  return static_cast<uint16_t>(sign | half);
}
constexpr float FromHalf(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1fu) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    const float value = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

// One element of any plain type.
struct ElementBytes {
  alignas(16) char bytes[16] = {};
};

// value as an element of the type, a complex one's imaginary part 0; false when the type holds no numbers. Integers
// truncate; who calls sees to it that they hold the value.
inline bool EncodeElement(double value, uint32_t dtype, ElementBytes* out) {
  const auto put = [&](auto element) {
    std::memcpy(out->bytes, &element, sizeof(element));
    return true;
  };
  switch (BaseType(dtype)) {
    case TENON_DT_FLOAT:
    case TENON_DT_COMPLEX64: return put(static_cast<float>(value));
    case TENON_DT_DOUBLE:
    case TENON_DT_COMPLEX128: return put(value);
    case TENON_DT_HALF: return put(ToHalf(static_cast<float>(value)));
    case TENON_DT_BFLOAT16: return put(ToBfloat16(static_cast<float>(value)));
    case TENON_DT_INT8: return put(static_cast<int8_t>(value));
    case TENON_DT_INT16: return put(static_cast<int16_t>(value));
    case TENON_DT_INT32: return put(static_cast<int32_t>(value));
    case TENON_DT_INT64: return put(static_cast<int64_t>(value));
    case TENON_DT_UINT8: return put(static_cast<uint8_t>(value));
    case TENON_DT_UINT16: return put(static_cast<uint16_t>(value));
    case TENON_DT_UINT32: return put(static_cast<uint32_t>(value));
    case TENON_DT_UINT64: return put(static_cast<uint64_t>(value));
    case TENON_DT_BOOL: return put(static_cast<uint8_t>(value != 0.0));
    default: return false;
  }
}

// The real element at `data`, which need not be aligned, as a number; false for other types. Beyond 2^53 int64 and
// uint64 are rounded.
inline bool DecodeElement(const char* data, uint32_t dtype, double* out) {
  const auto get = [&]<class T>(T element) {
    std::memcpy(&element, data, sizeof(element));
    return element;
  };
  switch (BaseType(dtype)) {
    case TENON_DT_FLOAT: *out = get(float{}); return true;
    case TENON_DT_DOUBLE: *out = get(double{}); return true;
    case TENON_DT_HALF: *out = FromHalf(get(uint16_t{})); return true;
    case TENON_DT_BFLOAT16: *out = FromBfloat16(get(uint16_t{})); return true;
    case TENON_DT_INT8: *out = get(int8_t{}); return true;
    case TENON_DT_INT16: *out = get(int16_t{}); return true;
    case TENON_DT_INT32: *out = get(int32_t{}); return true;
    case TENON_DT_INT64: *out = static_cast<double>(get(int64_t{})); return true;
    case TENON_DT_UINT8: *out = get(uint8_t{}); return true;
    case TENON_DT_UINT16: *out = get(uint16_t{}); return true;
    case TENON_DT_UINT32: *out = get(uint32_t{}); return true;
    case TENON_DT_UINT64: *out = static_cast<double>(get(uint64_t{})); return true;
    default: return false;
  }
}

// The DLPack type {code, bits, lanes} of a dtype, references without their mark; code 255 for types that DLPack does
// not have.
constexpr tenon_dl_data_type DlType(uint32_t dtype) {
  const uint8_t bits = static_cast<uint8_t>(ElementSize(BaseType(dtype)) * 8);
  switch (BaseType(dtype)) {
    case TENON_DT_INT8:
    case TENON_DT_INT16:
    case TENON_DT_INT32:
    case TENON_DT_INT64: return {0, bits, 1};
    case TENON_DT_UINT8:
    case TENON_DT_UINT16:
    case TENON_DT_UINT32:
    case TENON_DT_UINT64: return {1, bits, 1};
    case TENON_DT_HALF:
    case TENON_DT_FLOAT:
    case TENON_DT_DOUBLE: return {2, bits, 1};
    case TENON_DT_BFLOAT16: return {4, 16, 1};
    case TENON_DT_COMPLEX64:
    case TENON_DT_COMPLEX128: return {5, bits, 1};
    case TENON_DT_BOOL: return {6, 8, 1};
    default: return {255, bits, 1};
  }
}

}  // namespace tenon::sdk
#endif  // TENON_SDK_NUMBER_H_
