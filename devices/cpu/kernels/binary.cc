// SPDX-License-Identifier: Apache-2.0
// Arithmetic of two tensors.
#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/math.h"

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

// Of halves the rounded quotient is what is rounded down or towards 0, as in TensorFlow: -11.01 is -11 in bfloat16.
struct HalfFloorDivOp : FloorDivOp {
  template <class T>
  T Rounded(float x, float y) const {
    return T(std::floor(static_cast<float>(T(x / y))));
  }
};
struct HalfTruncateDivOp : TruncateDivOp {
  template <class T>
  T Rounded(float x, float y) const {
    return T(std::trunc(static_cast<float>(T(x / y))));
  }
};

// What TruncateDiv leaves over, of x's sign.
struct TruncateModOp : sdk::ByZero {
  static constexpr double kCost = 4;
  template <class T>
  T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T>) {
      return y == T(-1) ? T(0) : static_cast<T>(x % y);
    } else {
      return std::fmod(x, y);
    }
  }
};
struct NextAfterOp {
  static constexpr double kCost = 4;
  template <class T>
  T operator()(T x, T y) const { return std::nextafter(x, y); }
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
using AnyNumbers = Numbers::AndComplex;
using PowNumbers = Types<float, double, int32_t, int64_t, Half, Bfloat16, int8_t, int16_t>::AndComplex;

}  // namespace

TENON_CPU_KERNEL(Add) = CpuBinary<AddOp, AnyNumbers>("Add");
TENON_CPU_KERNEL(AddV2) = CpuBinary<AddOp, AnyNumbers>("AddV2");
TENON_CPU_KERNEL(Sub) = CpuBinary<SubOp, AnyNumbers>("Sub");
TENON_CPU_KERNEL(Mul) = CpuBinary<MulOp, AnyNumbers>("Mul");
TENON_CPU_KERNEL(Maximum) = CpuBinary<MaximumOp, Numbers>("Maximum");
TENON_CPU_KERNEL(Minimum) = CpuBinary<MinimumOp, Numbers>("Minimum");
TENON_CPU_KERNEL(SquaredDifference) = CpuBinary<SquaredDifferenceOp, PowNumbers>("SquaredDifference");
TENON_CPU_KERNEL(RealDiv) = CpuBinary<DivOp, PowNumbers>("RealDiv");
TENON_CPU_KERNEL(Div) = CpuBinary<DivOp, AnyNumbers>("Div");
TENON_CPU_KERNEL(FloorDiv) = CpuBinary<HalfFloorDivOp, Numbers>("FloorDiv");
TENON_CPU_KERNEL(FloorMod) = CpuBinary<FloorModOp, Numbers>("FloorMod");
TENON_CPU_KERNEL(DivNoNan) = CpuBinary<DivNoNanOp, Reals::AndComplex>("DivNoNan");
TENON_CPU_KERNEL(TruncateDiv) = CpuBinary<HalfTruncateDivOp, Numbers>("TruncateDiv");
TENON_CPU_KERNEL(MulNoNan) = CpuBinary<MulNoNanOp, Reals::AndComplex>("MulNoNan");
TENON_CPU_KERNEL(Xdivy) = CpuBinary<XdivyOp, Reals::AndComplex>("Xdivy");
TENON_CPU_KERNEL(Xlogy) = CpuBinary<XlogyOp, Reals::AndComplex>("Xlogy");
TENON_CPU_KERNEL(Xlog1py) = CpuBinary<Xlog1pyOp, Reals::AndComplex>("Xlog1py");
TENON_CPU_KERNEL(TruncateMod) = CpuBinary<TruncateModOp, Types<float, double, int32_t, int64_t, Half, Bfloat16>>("TruncateMod");
TENON_CPU_KERNEL(NextAfter) = CpuBinary<NextAfterOp, Types<float, double>>("NextAfter");
TENON_CPU_KERNEL(Pow) = CpuBinary<sdk::AnyPowOp<FloatingPowOp>, PowNumbers>("Pow");

}  // namespace tenon::cpu
