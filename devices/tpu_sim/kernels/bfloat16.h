// SPDX-License-Identifier: Apache-2.0
// bfloat16 as the units see it: the upper half of a float, rounded to nearest, ties to even.
#ifndef TENON_DEVICES_TPU_SIM_KERNELS_BFLOAT16_H_
#define TENON_DEVICES_TPU_SIM_KERNELS_BFLOAT16_H_

#include <bit>
#include <cstdint>

namespace tenon::tpu_sim {

struct Bfloat16 {
  uint16_t bits = 0;
};

inline float ToFloat(Bfloat16 value) { return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16); }
inline float ToFloat(float value) { return value; }

inline Bfloat16 ToBfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (value != value) return {static_cast<uint16_t>((bits >> 16) | 0x40)};  // stays a NaN
  return {static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)};
}

template <class T>
T FromFloat(float value);
template <>
inline float FromFloat<float>(float value) {
  return value;
}
template <>
inline Bfloat16 FromFloat<Bfloat16>(float value) {
  return ToBfloat16(value);
}

}  // namespace tenon::tpu_sim

#endif  // TENON_DEVICES_TPU_SIM_KERNELS_BFLOAT16_H_
