// SPDX-License-Identifier: Apache-2.0
// Element-wise kernels: which there are, and their parameters. Op of one tensor: <Op>_<type>; of two: <Op>_<type>, with
// the name of the function, not of the op (AddV2 is Add).
#ifndef TENON_DEVICES_GPU_CODE_ELEMENTWISE_H_
#define TENON_DEVICES_GPU_CODE_ELEMENTWISE_H_

#include <cstdint>

#include "code/fault.h"

namespace tenon::gpu {

// y[i] = op(x[i]). alpha: of ops that have one.
struct UnaryParams {
  const void* x;
  void* y;
  int64_t count;
  float alpha;
};

// out[i] = op(a[..], b[..]): `inner` elements of a row with steps of 0 or 1, rows by `rank` outer dims, slowest first.
inline constexpr int kMostOuterDims = 8;
struct BinaryParams {
  const void* a;
  const void* b;
  void* out;
  int64_t total, inner;
  int64_t a_step, b_step;
  int32_t rank;
  float alpha;
  int64_t dims[kMostOuterDims];
  int64_t a_strides[kMostOuterDims], b_strides[kMostOuterDims];
  FaultSite site;  // of operands that have no answer
};

// ClipByValue: bounds of one element (a step of 0) or of as many as x has.
struct ClipParams {
  const void* x;
  const void* low;
  const void* high;
  void* out;
  int64_t count;
  int64_t low_step, high_step;
};

// X(function's name): those in sdk as NameOp, the others in functions.h.
#define TENON_GPU_UNARY_OF_NUMBERS(X) X(Neg) X(Abs) X(Sign) X(Square) X(Relu) X(Relu6) X(Round)
#define TENON_GPU_UNARY_OF_FLOATS(X)                                                                                  \
  X(Reciprocal) X(Sqrt) X(Rsqrt) X(Floor) X(Ceil) X(Exp) X(Expm1) X(Log) X(Log1p) X(Sin) X(Cos) X(Tanh) X(Erf)        \
  X(Erfc) X(Sigmoid) X(Elu) X(Softplus) X(LeakyRelu) X(Selu) X(Softsign) X(Tan) X(Asin) X(Acos) X(Atan) X(Sinh)       \
  X(Cosh) X(Asinh) X(Acosh) X(Atanh)
#define TENON_GPU_UNARY_QUESTIONS(X) X(IsNan) X(IsInf) X(IsFinite)
#define TENON_GPU_BINARY_OF_NUMBERS(X)                                                                                \
  X(Add) X(Sub) X(Mul) X(Maximum) X(Minimum) X(SquaredDifference) X(ReluGrad) X(Relu6Grad)
// Integers that are divided by zero, or raised to what is below zero, are reported.
#define TENON_GPU_BINARY_THAT_MAY_FAIL(X) X(Div) X(FloorDiv) X(FloorMod) X(TruncateDiv) X(TruncateMod) X(Pow)
#define TENON_GPU_BINARY_OF_FLOATS(X)                                                                                 \
  X(DivNoNan) X(MulNoNan) X(Xdivy) X(Xlogy) X(TanhGrad) X(SigmoidGrad) X(SqrtGrad) X(RsqrtGrad) X(ReciprocalGrad)     \
  X(EluGrad) X(SoftplusGrad) X(LeakyReluGrad) X(SeluGrad) X(SoftsignGrad) X(Atan2) X(Xlog1py)
#define TENON_GPU_BINARY_QUESTIONS(X) X(Less) X(LessEqual) X(Greater) X(GreaterEqual)
#define TENON_GPU_BINARY_EQUALITIES(X) X(Equal) X(NotEqual)
#define TENON_GPU_BINARY_OF_BOOLS(X) X(And) X(Or)

// The bits of integers (bits.cu): by their unsigned type; places are signed, so shifts are not.
#define TENON_GPU_BINARY_OF_BITS(X) X(BitwiseAnd) X(BitwiseOr) X(BitwiseXor)
#define TENON_GPU_SHIFTS(X) X(LeftShift) X(RightShift)

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_ELEMENTWISE_H_
