// SPDX-License-Identifier: Apache-2.0
// Numbers in memory of any type, and what tensor cores do to a float before they multiply it.
#ifndef TENON_DEVICES_GPU_EMULATION_ELEMENT_H_
#define TENON_DEVICES_GPU_EMULATION_ELEMENT_H_

#include <bit>
#include <cstdint>

#include "tenon/sdk/kernel/half.h"

namespace tenon::gpu {

enum class Number { kFloat, kDouble, kHalf, kBfloat16 };

inline double Load(Number type, const void* data, int64_t at) {
  switch (type) {
    case Number::kFloat: return static_cast<const float*>(data)[at];
    case Number::kDouble: return static_cast<const double*>(data)[at];
    case Number::kHalf: return static_cast<float>(static_cast<const sdk::Half*>(data)[at]);
    default: return static_cast<float>(static_cast<const sdk::Bfloat16*>(data)[at]);
  }
}
inline void Store(Number type, void* data, int64_t at, double value) {
  switch (type) {
    case Number::kFloat: static_cast<float*>(data)[at] = static_cast<float>(value); break;
    case Number::kDouble: static_cast<double*>(data)[at] = value; break;
    case Number::kHalf: static_cast<sdk::Half*>(data)[at] = sdk::Half(static_cast<float>(value)); break;
    default: static_cast<sdk::Bfloat16*>(data)[at] = sdk::Bfloat16(static_cast<float>(value)); break;
  }
}

// A float with so many bits of mantissa, to the nearest: 10 are TF32, 7 bfloat16, 23 all.
inline double Rounded(double value, int mantissa_bits) {
  if (mantissa_bits >= 23) return value;
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  const uint32_t lost = 23 - static_cast<uint32_t>(mantissa_bits);
  return std::bit_cast<float>((bits + (1u << (lost - 1))) >> lost << lost);
}

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_EMULATION_ELEMENT_H_
