// SPDX-License-Identifier: Apache-2.0
// Functions of one tensor, and the gradients that take (result, gradient) of the same shape.
#include <cmath>

#include "kernels/common/math.h"
#include "kernels/elementwise/elementwise.h"

namespace tenon::cpu {
namespace {

using sdk::AbsOp;
using sdk::CeilOp;
using sdk::FloorOp;
using sdk::NegOp;
using sdk::ReciprocalGradOp;
using sdk::ReciprocalOp;
using sdk::RoundOp;
using sdk::RsqrtGradOp;
using sdk::RsqrtOp;
using sdk::SigmoidGradOp;
using sdk::SignOp;
using sdk::SqrtGradOp;
using sdk::SqrtOp;
using sdk::SquareOp;
using sdk::TanhGradOp;

#define TENON_CPU_MATH_OP(Name)                                                \
  struct Name##Op {                                                            \
    static constexpr bool kBlocked = true;                                     \
    template <class T>                                                         \
    T operator()(T x) const {                                                  \
      return math::Name(x);                                                    \
    }                                                                          \
  };
TENON_CPU_MATH_OP(Exp)
TENON_CPU_MATH_OP(Expm1)
TENON_CPU_MATH_OP(Log)
TENON_CPU_MATH_OP(Log1p)
TENON_CPU_MATH_OP(Sin)
TENON_CPU_MATH_OP(Cos)
TENON_CPU_MATH_OP(Tanh)
TENON_CPU_MATH_OP(Erf)
TENON_CPU_MATH_OP(Erfc)
TENON_CPU_MATH_OP(Sigmoid)
#undef TENON_CPU_MATH_OP

using Signed = Types<float, double, int32_t, int64_t, Half, Bfloat16, int8_t, int16_t>;
using SignedOrComplex = Signed::AndComplex;

}  // namespace

TENON_CPU_KERNEL(Neg) = CpuUnary<NegOp, SignedOrComplex>("Neg");
TENON_CPU_KERNEL(Abs) = CpuUnary<AbsOp, Signed>("Abs");
TENON_CPU_KERNEL(Sign) = CpuUnary<SignOp, SignedOrComplex>("Sign");
TENON_CPU_KERNEL(Square) = CpuUnary<SquareOp, Numbers::AndComplex>("Square");
TENON_CPU_KERNEL(Reciprocal) = CpuUnary<ReciprocalOp, RealsAndComplex>("Reciprocal");
TENON_CPU_KERNEL(Sqrt) = CpuUnary<SqrtOp, RealsAndComplex>("Sqrt");
TENON_CPU_KERNEL(Rsqrt) = CpuUnary<RsqrtOp, RealsAndComplex>("Rsqrt");
TENON_CPU_KERNEL(Floor) = CpuUnary<FloorOp, Reals>("Floor");
TENON_CPU_KERNEL(Ceil) = CpuUnary<CeilOp, Reals>("Ceil");
TENON_CPU_KERNEL(Round) = CpuUnary<RoundOp, Signed>("Round");
TENON_CPU_KERNEL(Exp) = CpuUnary<ExpOp, RealsAndComplex>("Exp");
TENON_CPU_KERNEL(Expm1) = CpuUnary<Expm1Op, RealsAndComplex>("Expm1");
TENON_CPU_KERNEL(Log) = CpuUnary<LogOp, RealsAndComplex>("Log");
TENON_CPU_KERNEL(Log1p) = CpuUnary<Log1pOp, RealsAndComplex>("Log1p");
TENON_CPU_KERNEL(Sin) = CpuUnary<SinOp, RealsAndComplex>("Sin");
TENON_CPU_KERNEL(Cos) = CpuUnary<CosOp, RealsAndComplex>("Cos");
TENON_CPU_KERNEL(Tanh) = CpuUnary<TanhOp, RealsAndComplex>("Tanh");
TENON_CPU_KERNEL(Erf) = CpuUnary<ErfOp, Reals>("Erf");
TENON_CPU_KERNEL(Erfc) = CpuUnary<ErfcOp, Reals>("Erfc");
TENON_CPU_KERNEL(Sigmoid) = CpuUnary<SigmoidOp, RealsAndComplex>("Sigmoid");
TENON_CPU_KERNEL(TanhGrad) = CpuBinary<TanhGradOp, RealsAndComplex>("TanhGrad");
TENON_CPU_KERNEL(SigmoidGrad) = CpuBinary<SigmoidGradOp, RealsAndComplex>("SigmoidGrad");
TENON_CPU_KERNEL(SqrtGrad) = CpuBinary<SqrtGradOp, RealsAndComplex>("SqrtGrad");
TENON_CPU_KERNEL(RsqrtGrad) = CpuBinary<RsqrtGradOp, RealsAndComplex>("RsqrtGrad");
TENON_CPU_KERNEL(ReciprocalGrad) = CpuBinary<ReciprocalGradOp, RealsAndComplex>("ReciprocalGrad");

}  // namespace tenon::cpu
