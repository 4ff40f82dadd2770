// SPDX-License-Identifier: Apache-2.0
// Arithmetic of two tensors.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/common/math.h"
#include "kernels/elementwise/elementwise.h"

namespace tenon::cpu {
namespace {

using sdk::AddOp;
using sdk::DivNoNanOp;
using sdk::DivOp;
using sdk::FloorDivOp;
using sdk::FloorModOp;
using sdk::MaximumOp;
using sdk::MinimumOp;
using sdk::MulNoNanOp;
using sdk::MulOp;
using sdk::SquaredDifferenceOp;
using sdk::SubOp;
using sdk::TruncateDivOp;
using sdk::XdivyOp;
using sdk::XlogyOp;

// Integers of at most 32 bits are divided as doubles, of which there are several in a register. Between two quotients
// lies more than a double rounds. INT_MIN / -1 wraps.
template <class T>
inline constexpr bool kDividesAsDouble = std::is_integral_v<T> && sizeof(T) <= 4;
template <class T>
T Quotient(double whole) {
  return static_cast<T>(static_cast<int64_t>(whole));
}
template <class T>
T Rest(T x, T y, T quotient) {
  return static_cast<T>(static_cast<uint32_t>(x) - static_cast<uint32_t>(quotient) * static_cast<uint32_t>(y));
}
struct IntegerDivOp : DivOp {
  using DivOp::operator();
  template <class T>
    requires kDividesAsDouble<T>
  T operator()(T x, T y) const { return Quotient<T>(std::trunc(static_cast<double>(x) / static_cast<double>(y))); }
};
// Of halves the rounded quotient is what is rounded down or towards 0, as in TensorFlow: -11.01 is -11 in bfloat16.
struct AnyFloorDivOp : FloorDivOp {
  using FloorDivOp::operator();
  template <class T>
    requires kDividesAsDouble<T>
  T operator()(T x, T y) const { return Quotient<T>(std::floor(static_cast<double>(x) / static_cast<double>(y))); }
  template <class T>
  T Rounded(float x, float y) const {
    return T(std::floor(static_cast<float>(T(x / y))));
  }
};
struct AnyTruncateDivOp : TruncateDivOp {
  using TruncateDivOp::operator();
  template <class T>
    requires kDividesAsDouble<T>
  T operator()(T x, T y) const { return IntegerDivOp()(x, y); }
  template <class T>
  T Rounded(float x, float y) const {
    return T(std::trunc(static_cast<float>(T(x / y))));
  }
};

// x modulo y of a block of floats, of x's sign, exactly: as doubles, in which a quotient of up to 29 bits times y is
// exact. Another one goes to the library.
inline void FloatRests(const float* x, const float* y, float* out) {
  bool far = false;
  float rests[kBlock];
  for (int64_t k = 0; k < kBlock; ++k) {
    const double numerator = x[k], denominator = y[k];
    const double whole = std::trunc(numerator / denominator);
    const double rest = std::fma(-whole, denominator, numerator);
    // A quotient that was rounded up to a whole number leaves less than nothing.
    const double right = rest * numerator < 0 ? rest + std::copysign(denominator, numerator) : rest;
    rests[k] = std::copysign(static_cast<float>(right), x[k]);
    far |= !(std::fabs(whole) < 0x1p29) |
           !(std::fabs(denominator) <= std::numeric_limits<float>::max());  // of infinity x is left
  }
  if (far) [[unlikely]] {
    for (int64_t k = 0; k < kBlock; ++k) rests[k] = std::fmod(x[k], y[k]);
  }
  std::copy(rests, rests + kBlock, out);
}
struct AnyFloorModOp : FloorModOp {
  static constexpr double kCost = 1;
  using FloorModOp::operator();
  template <class T>
    requires kDividesAsDouble<T>
  T operator()(T x, T y) const { return Rest(x, y, AnyFloorDivOp()(x, y)); }
  void Block(const float* x, const float* y, float* out) const {
    float rests[kBlock];
    FloatRests(x, y, rests);
    for (int64_t k = 0; k < kBlock; ++k) {
      const float rest = rests[k], sum = rest + y[k];
      out[k] = (rest != 0) & ((rest < 0) != (y[k] < 0)) ? sum : rest;
    }
  }
};
// What TruncateDiv leaves over, of x's sign.
struct TruncateModOp : sdk::ByZero {
  static constexpr double kCost = 1;
  template <class T>
  T operator()(T x, T y) const {
    if constexpr (kDividesAsDouble<T>) {
      return Rest(x, y, IntegerDivOp()(x, y));
    } else if constexpr (std::is_integral_v<T>) {
      return y == T(-1) ? T(0) : static_cast<T>(x % y);
    } else {
      return std::fmod(x, y);
    }
  }
  void Block(const float* x, const float* y, float* out) const { FloatRests(x, y, out); }
};
// By its bits, which go up with what they stand for.
struct NextAfterOp {
  static constexpr double kCost = 0.5;
  template <class T>
  T operator()(T x, T y) const {
    using Bits =
        std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;  // -0 has one above its own, which is not asked for
    const T next = std::bit_cast<T>(std::bit_cast<Bits>(x) + ((x < y) == (x > T(0)) ? Bits{1} : ~Bits{0}));
    const T from_zero = std::copysign(std::numeric_limits<T>::denorm_min(), y);
    const T moved = x == T(0) ? from_zero : next;
    const T found = x == y ? y : moved;
    return (x != x) | (y != y) ? x + y : found;
  }
};
struct Xlog1pyOp {
  static constexpr double kCost = 4;
  template <class T>
  T operator()(T x, T y) const { return x == T(0) ? T(0) : x * math::Log1p(y); }
};
struct FloatingPowOp {
  static constexpr double kCost = 4;
  template <class T>
  T operator()(T x, T y) const {
    return math::Pow(x, y);
  }
};
using PowNumbers = Types<float, double, int32_t, int64_t, Half, Bfloat16, int8_t, int16_t>::AndComplex;

}  // namespace

TENON_CPU_KERNEL(Add) = CpuBinary<AddOp, AnyNumbers>("Add");
TENON_CPU_KERNEL(AddV2) = CpuBinary<AddOp, AnyNumbers>("AddV2");
TENON_CPU_KERNEL(Sub) = CpuBinary<SubOp, AnyNumbers>("Sub");
TENON_CPU_KERNEL(Mul) = CpuBinary<MulOp, AnyNumbers>("Mul");
TENON_CPU_KERNEL(Maximum) = CpuBinary<MaximumOp, Numbers>("Maximum");
TENON_CPU_KERNEL(Minimum) = CpuBinary<MinimumOp, Numbers>("Minimum");
TENON_CPU_KERNEL(SquaredDifference) = CpuBinary<SquaredDifferenceOp, PowNumbers>("SquaredDifference");
TENON_CPU_KERNEL(RealDiv) = CpuBinary<IntegerDivOp, PowNumbers>("RealDiv");
TENON_CPU_KERNEL(Div) = CpuBinary<IntegerDivOp, AnyNumbers>("Div");
TENON_CPU_KERNEL(FloorDiv) = CpuBinary<AnyFloorDivOp, Numbers>("FloorDiv");
TENON_CPU_KERNEL(FloorMod) = CpuBinary<AnyFloorModOp, Numbers>("FloorMod");
TENON_CPU_KERNEL(DivNoNan) = CpuBinary<DivNoNanOp, Reals::AndComplex>("DivNoNan");
TENON_CPU_KERNEL(TruncateDiv) = CpuBinary<AnyTruncateDivOp, Numbers>("TruncateDiv");
TENON_CPU_KERNEL(MulNoNan) = CpuBinary<MulNoNanOp, Reals::AndComplex>("MulNoNan");
TENON_CPU_KERNEL(Xdivy) = CpuBinary<XdivyOp, Reals::AndComplex>("Xdivy");
TENON_CPU_KERNEL(Xlogy) = CpuBinary<XlogyOp, Reals::AndComplex>("Xlogy");
TENON_CPU_KERNEL(Xlog1py) = CpuBinary<Xlog1pyOp, Reals::AndComplex>("Xlog1py");
TENON_CPU_KERNEL(TruncateMod) =
    CpuBinary<TruncateModOp, Types<float, double, int32_t, int64_t, Half, Bfloat16>>("TruncateMod");
TENON_CPU_KERNEL(NextAfter) = CpuBinary<NextAfterOp, Types<float, double>>("NextAfter");
TENON_CPU_KERNEL(Pow) = CpuBinary<sdk::AnyPowOp<FloatingPowOp>, PowNumbers>("Pow");

}  // namespace tenon::cpu
