// SPDX-License-Identifier: Apache-2.0
// The bits of integers.
#include <bit>

#include "kernels/elementwise/elementwise.h"

namespace tenon::cpu {
namespace {

using Integers = Types<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;

struct BitwiseAndOp {
  template <class T>
  T operator()(T x, T y) const { return static_cast<T>(x & y); }
};
struct BitwiseOrOp {
  template <class T>
  T operator()(T x, T y) const { return static_cast<T>(x | y); }
};
struct BitwiseXorOp {
  template <class T>
  T operator()(T x, T y) const { return static_cast<T>(x ^ y); }
};
struct InvertOp {
  template <class T>
  T operator()(T x) const { return static_cast<T>(~x); }
};
// As many places as there are: what is below counts as 0, what is beyond as the last.
template <class T>
int Places(T y) {
  constexpr T kLast = static_cast<T>(8 * sizeof(T) - 1);
  return static_cast<int>(y < 0 ? T(0) : y > kLast ? kLast : y);
}
struct LeftShiftOp {
  template <class T>
  T operator()(T x, T y) const { return static_cast<T>(static_cast<uint64_t>(x) << Places(y)); }
};
struct RightShiftOp {
  template <class T>
  T operator()(T x, T y) const { return static_cast<T>(x >> Places(y)); }
};
struct PopulationCountOp {
  template <class T>
  uint8_t operator()(T x) const { return static_cast<uint8_t>(std::popcount(static_cast<std::make_unsigned_t<T>>(x))); }
};

}  // namespace

TENON_CPU_KERNEL(BitwiseAnd) = CpuBinary<BitwiseAndOp, Integers>("BitwiseAnd");
TENON_CPU_KERNEL(BitwiseOr) = CpuBinary<BitwiseOrOp, Integers>("BitwiseOr");
TENON_CPU_KERNEL(BitwiseXor) = CpuBinary<BitwiseXorOp, Integers>("BitwiseXor");
TENON_CPU_KERNEL(LeftShift) = CpuBinary<LeftShiftOp, Integers>("LeftShift");
TENON_CPU_KERNEL(RightShift) = CpuBinary<RightShiftOp, Integers>("RightShift");
TENON_CPU_KERNEL(Invert) = CpuUnary<InvertOp, Integers>("Invert");
TENON_CPU_KERNEL(PopulationCount) = CpuConversion<PopulationCountOp, Integers>("PopulationCount");

}  // namespace tenon::cpu
