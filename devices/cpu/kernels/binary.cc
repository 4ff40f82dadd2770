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
TENON_CPU_KERNEL(Pow) = CpuBinary<sdk::AnyPowOp<FloatingPowOp>, PowNumbers>("Pow");

}  // namespace tenon::cpu
