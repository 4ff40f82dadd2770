// SPDX-License-Identifier: Apache-2.0
// Angles, and the hyperbolic functions.
#include "kernels/common/math.h"
#include "kernels/elementwise/elementwise.h"

namespace tenon::cpu {
namespace {

#define TENON_CPU_CURVE(Name)                         \
  struct Name##Op {                                   \
    static constexpr bool kBlocked = true;            \
    static constexpr double kCost = 2;                \
    template <class T>                                \
    T operator()(T x) const { return math::Name(x); } \
  };
TENON_CPU_CURVE(Tan)
TENON_CPU_CURVE(Asin)
TENON_CPU_CURVE(Acos)
TENON_CPU_CURVE(Atan)
TENON_CPU_CURVE(Sinh)
TENON_CPU_CURVE(Cosh)
TENON_CPU_CURVE(Asinh)
TENON_CPU_CURVE(Acosh)
TENON_CPU_CURVE(Atanh)
#undef TENON_CPU_CURVE
struct Atan2Op {
  static constexpr bool kBlocked = true;
  static constexpr double kCost = 3;
  template <class T>
  T operator()(T y, T x) const { return math::Atan2(y, x); }
};

}  // namespace

TENON_CPU_KERNEL(Tan) = CpuUnary<TanOp, RealsAndComplex>("Tan");
TENON_CPU_KERNEL(Asin) = CpuUnary<AsinOp, RealsAndComplex>("Asin");
TENON_CPU_KERNEL(Acos) = CpuUnary<AcosOp, RealsAndComplex>("Acos");
TENON_CPU_KERNEL(Atan) = CpuUnary<AtanOp, RealsAndComplex>("Atan");
TENON_CPU_KERNEL(Sinh) = CpuUnary<SinhOp, RealsAndComplex>("Sinh");
TENON_CPU_KERNEL(Cosh) = CpuUnary<CoshOp, RealsAndComplex>("Cosh");
TENON_CPU_KERNEL(Asinh) = CpuUnary<AsinhOp, RealsAndComplex>("Asinh");
TENON_CPU_KERNEL(Acosh) = CpuUnary<AcoshOp, RealsAndComplex>("Acosh");
TENON_CPU_KERNEL(Atanh) = CpuUnary<AtanhOp, RealsAndComplex>("Atanh");
TENON_CPU_KERNEL(Atan2) = CpuBinary<Atan2Op, Reals>("Atan2");

}  // namespace tenon::cpu
