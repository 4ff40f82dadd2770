// SPDX-License-Identifier: Apache-2.0
// Which kernels there are: one line an op. Each is defined in a file of kernels/ with TENON_TPU_KERNEL.
#include <string_view>

#include "driver.h"
#include "kernels/kernel.h"

// Kernels with a plan, of which a region may be made (compiler.h).
#define TENON_TPU_PLANNED_KERNELS(X)                                                                      \
  /* elementwise.cc */                                                                                    \
  X(Neg) X(Abs) X(Sign) X(Square) X(Reciprocal) X(Sqrt) X(Rsqrt) X(Floor) X(Ceil) X(Round) X(Exp)         \
  X(Expm1) X(Log) X(Log1p) X(Sin) X(Cos) X(Tanh) X(Erf) X(Sigmoid) X(Relu) X(Relu6) X(Elu) X(Softplus)    \
  X(LeakyRelu) X(IsFinite) X(IsNan) X(Add) X(AddV2) X(Sub) X(Mul) X(Maximum) X(Minimum)                   \
  X(SquaredDifference) X(RealDiv) X(Div) X(FloorDiv) X(FloorMod) X(DivNoNan) X(Pow) X(TanhGrad)           \
  X(SigmoidGrad) X(SqrtGrad) X(RsqrtGrad) X(ReciprocalGrad) X(ReluGrad) X(Relu6Grad) X(EluGrad)           \
  X(SoftplusGrad) X(LeakyReluGrad) X(Equal) X(NotEqual) X(Less) X(LessEqual) X(Greater) X(GreaterEqual)   \
  X(LogicalAnd) X(LogicalOr) X(LogicalNot) X(Cast) X(Select) X(SelectV2) X(AddN) X(BiasAdd)               \
  /* reduce.cc */                                                                                         \
  X(Sum) X(Mean) X(Prod) X(Max) X(Min) X(All) X(Any) X(BiasAddGrad) X(L2Loss) X(ArgMax) X(ArgMin)         \
  /* softmax.cc */                                                                                        \
  X(Softmax) X(LogSoftmax) X(SoftmaxCrossEntropyWithLogits) X(SparseSoftmaxCrossEntropyWithLogits)        \
  /* matmul.cc */                                                                                         \
  X(MatMul) X(BatchMatMulV2)                                                                              \
  /* conv.cc, pool.cc */                                                                                  \
  X(Conv2D) X(Conv2DBackpropInput) X(Conv2DBackpropFilter) X(MaxPool) X(AvgPool) X(MaxPoolGrad)           \
  X(AvgPoolGrad)                                                                                          \
  /* move.cc */                                                                                           \
  X(Slice) X(StridedSlice) X(StridedSliceGrad) X(ReverseV2) X(Transpose) X(Tile) X(BroadcastTo) X(Pad)    \
  X(PadV2) X(ConcatV2) X(Pack) X(Unpack) X(Split) X(SplitV) X(Fill) X(ZerosLike) X(OnesLike) X(Gather)    \
  X(GatherV2) X(OneHot) X(UnsortedSegmentSum)

#define TENON_TPU_OTHER_KERNELS(X)                                                                        \
  /* move.cc, shape.cc */                                                                                 \
  X(Reshape) X(ExpandDims) X(Squeeze) X(Shape) X(ShapeN) X(Size) X(Rank) X(VariableShape)                 \
  /* variable.cc */                                                                                       \
  X(ReadVariableOp) X(Assign) X(AssignVariableOp) X(AssignAdd) X(AssignSub) X(AssignAddVariableOp)        \
  X(AssignSubVariableOp) X(ApplyGradientDescent) X(ResourceApplyGradientDescent) X(ApplyMomentum)         \
  X(ResourceApplyMomentum) X(ApplyAdagrad) X(ResourceApplyAdagrad) X(ApplyAdam) X(ResourceApplyAdam)      \
  /* random.cc */                                                                                         \
  X(RandomUniform) X(RandomStandardNormal) X(TruncatedNormal) X(RandomUniformInt)

namespace tenon::tpu_sim {

#define TENON_TPU_DECLARE(name) extern const tenon_kernel_registration k##name;
TENON_TPU_PLANNED_KERNELS(TENON_TPU_DECLARE)
TENON_TPU_OTHER_KERNELS(TENON_TPU_DECLARE)
#undef TENON_TPU_DECLARE

namespace {
#define TENON_TPU_ADDRESS(name) &k##name,
constexpr const tenon_kernel_registration* kRegistrations[] = {TENON_TPU_PLANNED_KERNELS(TENON_TPU_ADDRESS)
                                                                   TENON_TPU_OTHER_KERNELS(TENON_TPU_ADDRESS)};
#undef TENON_TPU_ADDRESS
#define TENON_TPU_ONE(name) +1
constexpr size_t kPlanned = 0 TENON_TPU_PLANNED_KERNELS(TENON_TPU_ONE);
#undef TENON_TPU_ONE

const tenon_kernel_registration* Find(std::string_view op, size_t among) {
  for (size_t i = 0; i < among; ++i) {
    if (sdk::ToText(kRegistrations[i]->op) == op) return kRegistrations[i];
  }
  return nullptr;
}
}  // namespace

constinit const tenon_kernel_package kKernelPackage = {TENON_HEAD(tenon_kernel_package), kRegistrations,
                                                       TENON_PLUGIN_COUNT(kRegistrations)};

const char* OpName(std::string_view op) {
  const tenon_kernel_registration* found = Find(op, TENON_PLUGIN_COUNT(kRegistrations));
  return found == nullptr ? "kernel" : found->op.data;
}
const tenon_kernel_registration* PlannedKernel(std::string_view op) { return Find(op, kPlanned); }

}  // namespace tenon::tpu_sim
