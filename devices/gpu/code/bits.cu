// SPDX-License-Identifier: Apache-2.0
// The bits of integers.
#include "code/map.h"

namespace tenon::gpu {

struct BitwiseAndOp {
  template <class T>
  TENON_GPU_FUNCTION T operator()(T x, T y) const { return static_cast<T>(x & y); }
};
struct BitwiseOrOp {
  template <class T>
  TENON_GPU_FUNCTION T operator()(T x, T y) const { return static_cast<T>(x | y); }
};
struct BitwiseXorOp {
  template <class T>
  TENON_GPU_FUNCTION T operator()(T x, T y) const { return static_cast<T>(x ^ y); }
};
struct InvertOp {
  template <class T>
  TENON_GPU_FUNCTION T operator()(T x) const { return static_cast<T>(~x); }
};
// As many places as there are: what is below counts as 0, what is beyond as the last.
template <class T>
TENON_GPU_FUNCTION int Places(T y) {
  constexpr T kLast = static_cast<T>(8 * sizeof(T) - 1);
  return static_cast<int>(y < T(0) ? T(0) : y > kLast ? kLast : y);
}
struct LeftShiftOp {
  template <class T>
  TENON_GPU_FUNCTION T operator()(T x, T y) const { return static_cast<T>(static_cast<uint64_t>(x) << Places(y)); }
};
struct RightShiftOp {
  template <class T>
  TENON_GPU_FUNCTION T operator()(T x, T y) const { return static_cast<T>(x >> Places(y)); }
};

// Sums of neighbouring bits, then of pairs, then of fours; the product adds the bytes.
TENON_GPU_FUNCTION uint8_t OnesOf(uint64_t x) {
  x -= x >> 1 & UINT64_C(0x5555555555555555);
  x = (x & UINT64_C(0x3333333333333333)) + (x >> 2 & UINT64_C(0x3333333333333333));
  x = (x + (x >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
  return static_cast<uint8_t>(x * UINT64_C(0x0101010101010101) >> 56);
}
template <class T>
TENON_GPU_FUNCTION void CountOnes(const UnaryParams& p) {
  for (int64_t i = Thread(); i < p.count; i += Threads())
    static_cast<uint8_t*>(p.y)[i] = OnesOf(static_cast<const T*>(p.x)[i]);
}

#define TENON_GPU_BITS_BINARY(Name, suffix, T) TENON_GPU_KERNEL(Name##_##suffix, BinaryParams, Binary<Name##Op, T>)
#define TENON_GPU_BITS(Name)                                                              \
  TENON_GPU_BITS_BINARY(Name, u8, uint8_t) TENON_GPU_BITS_BINARY(Name, u16, uint16_t)     \
  TENON_GPU_BITS_BINARY(Name, u32, uint32_t) TENON_GPU_BITS_BINARY(Name, u64, uint64_t)
#define TENON_GPU_SHIFT(Name)                                                             \
  TENON_GPU_BITS(Name)                                                                    \
  TENON_GPU_BITS_BINARY(Name, i8, int8_t) TENON_GPU_BITS_BINARY(Name, i16, int16_t)       \
  TENON_GPU_BITS_BINARY(Name, i32, int32_t) TENON_GPU_BITS_BINARY(Name, i64, int64_t)
TENON_GPU_BINARY_OF_BITS(TENON_GPU_BITS)
TENON_GPU_SHIFTS(TENON_GPU_SHIFT)

#define TENON_GPU_BITS_UNARY(suffix, T)                                                   \
  TENON_GPU_KERNEL(Invert_##suffix, UnaryParams, Unary<InvertOp, T>)                      \
  TENON_GPU_KERNEL(PopulationCount_##suffix, UnaryParams, CountOnes<T>)
TENON_GPU_BITS_UNARY(u8, uint8_t)
TENON_GPU_BITS_UNARY(u16, uint16_t)
TENON_GPU_BITS_UNARY(u32, uint32_t)
TENON_GPU_BITS_UNARY(u64, uint64_t)

}  // namespace tenon::gpu
