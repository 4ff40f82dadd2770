// SPDX-License-Identifier: Apache-2.0
// Which kernels there are: one line an op. Each is defined in a file of kernels/ with TENON_CPU_KERNEL.
#include "device.h"

#define TENON_CPU_KERNELS(X)                                                                       \
  /* binary.cc */                                                                                  \
  X(Add) X(AddV2) X(Sub) X(Mul) X(Maximum) X(Minimum) X(SquaredDifference) X(RealDiv) X(Div)       \
  X(FloorDiv) X(FloorMod) X(DivNoNan) X(Pow)                                                       \
  /* compare.cc */                                                                                 \
  X(Equal) X(NotEqual) X(Less) X(LessEqual) X(Greater) X(GreaterEqual) X(LogicalAnd) X(LogicalOr)  \
  X(LogicalNot) X(IsNan) X(IsFinite)                                                               \
  /* unary.cc */                                                                                   \
  X(Neg) X(Abs) X(Sign) X(Square) X(Reciprocal) X(Sqrt) X(Rsqrt) X(Floor) X(Ceil) X(Round) X(Exp)  \
  X(Expm1) X(Log) X(Log1p) X(Sin) X(Cos) X(Tanh) X(Erf) X(Sigmoid) X(TanhGrad) X(SigmoidGrad)      \
  X(SqrtGrad) X(RsqrtGrad) X(ReciprocalGrad)                                                       \
  /* activation.cc */                                                                              \
  X(Relu) X(Relu6) X(Elu) X(Softplus) X(LeakyRelu) X(ReluGrad) X(Relu6Grad) X(EluGrad)             \
  X(SoftplusGrad) X(LeakyReluGrad)                                                                 \
  /* matmul.cc */                                                                                  \
  X(MatMul) X(BatchMatMulV2)

namespace tenon::cpu {

#define TENON_CPU_DECLARE(name) extern const tenon_kernel_registration k##name;
TENON_CPU_KERNELS(TENON_CPU_DECLARE)
#undef TENON_CPU_DECLARE

namespace {
#define TENON_CPU_ADDRESS(name) &k##name,
constexpr const tenon_kernel_registration* kRegistrations[] = {TENON_CPU_KERNELS(TENON_CPU_ADDRESS)};
#undef TENON_CPU_ADDRESS
}  // namespace

constinit const tenon_kernel_package kKernelPackage = {TENON_HEAD(tenon_kernel_package), kRegistrations,
                                                       TENON_PLUGIN_COUNT(kRegistrations)};

}  // namespace tenon::cpu
