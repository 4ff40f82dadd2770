// SPDX-License-Identifier: Apache-2.0
// Which kernels there are: one line an op. Each is defined in a file of kernels/ with TENON_GPU_REGISTER.
#include "code/elementwise.h"
#include "driver.h"

#define TENON_GPU_KERNELS(X)                                                                               \
  /* elementwise.cc */                                                                                     \
  TENON_GPU_UNARY_OF_NUMBERS(X) TENON_GPU_UNARY_OF_FLOATS(X) TENON_GPU_UNARY_QUESTIONS(X) X(LogicalNot)    \
  TENON_GPU_BINARY_OF_NUMBERS(X) TENON_GPU_BINARY_THAT_MAY_FAIL(X) TENON_GPU_BINARY_OF_FLOATS(X)           \
  TENON_GPU_BINARY_QUESTIONS(X) TENON_GPU_BINARY_EQUALITIES(X) X(LogicalAnd) X(LogicalOr) X(AddV2)         \
  X(RealDiv) X(BiasAdd)                                                                                    \
  /* what sums and chooses: reduce.cc, ... */                                                              \
  X(Sum) X(Mean) X(Prod) X(Max) X(Min) X(All) X(Any) X(L2Loss) X(BiasAddGrad) X(ArgMax) X(ArgMin)          \
  X(CheckNumerics) X(AddN)                                                                                 \
  X(Softmax) X(LogSoftmax) X(SoftmaxCrossEntropyWithLogits) X(SparseSoftmaxCrossEntropyWithLogits)         \
  X(InTopKV2)                                                                                              \
  X(FusedBatchNorm) X(FusedBatchNormV2) X(FusedBatchNormV3) X(FusedBatchNormGrad) X(FusedBatchNormGradV2)  \
  X(FusedBatchNormGradV3) X(MaxPool) X(AvgPool) X(MaxPoolGrad) X(MaxPoolGradGrad) X(AvgPoolGrad)           \
  X(Cumsum) X(Cumprod) X(TopKV2) X(LRN) X(LRNGrad)                                                         \
  /* what moves: move.cc, ... */                                                                           \
  X(Slice) X(StridedSlice) X(StridedSliceGrad) X(ReverseV2) X(Transpose) X(Tile) X(BroadcastTo) X(Pad)     \
  X(PadV2) X(MirrorPad) X(MirrorPadGrad) X(Concat) X(ConcatV2) X(Pack) X(Unpack) X(Split) X(SplitV)        \
  X(Fill) X(ZerosLike) X(OnesLike) X(Range) X(LinSpace) X(SpaceToDepth) X(DepthToSpace)                    \
  /* shape.cc */                                                                                           \
  X(Shape) X(ShapeN) X(Size) X(Rank) X(Reshape) X(ExpandDims) X(Squeeze) X(EnsureShape) X(VariableShape)   \
  X(BroadcastGradientArgs) X(ConcatOffset) X(DynamicStitchOnHost) X(InvertPermutationOnHost)               \
  /* select.cc */                                                                                          \
  X(Select) X(SelectV2) X(OneHot) X(MatrixBandPart) X(Cast)                                                \
  /* gather.cc */                                                                                          \
  X(Gather) X(GatherV2) X(GatherNd) X(ResourceGather) X(ResourceGatherNd) X(ScatterNd)                     \
  X(TensorScatterUpdate) X(TensorScatterAdd) X(TensorScatterSub) X(TensorScatterMin) X(TensorScatterMax)   \
  X(UnsortedSegmentSum) X(ScatterAdd) X(ScatterSub) X(ScatterUpdate) X(ResourceScatterAdd)                 \
  X(ResourceScatterSub) X(ResourceScatterUpdate)                                                           \
  /* whose outputs' sizes depend on data: where.cc, ... */                                                 \
  X(Where) X(Unique) X(UniqueWithCounts) X(DynamicPartition) X(DynamicStitch) X(InvertPermutation)         \
  /* segment.cc, sparse_product.cc, sparse.cc, bincount.cc */                                              \
  X(SegmentSum) X(SparseSegmentSum) X(SparseSegmentMean) X(SparseSegmentSqrtN) X(SparseSegmentSumGrad)     \
  X(SparseSegmentMeanGrad) X(SparseSegmentSqrtNGrad) X(SparseSegmentSumGradV2) X(SparseSegmentMeanGradV2)  \
  X(SparseSegmentSqrtNGradV2) X(SparseTensorDenseMatMul)                                                   \
  X(SparseToDense) X(SparseReshape) X(SparseFillEmptyRows) X(Bincount) X(DenseBincount)                    \
  /* image.cc */                                                                                           \
  X(SpaceToBatchND) X(BatchToSpaceND) X(ReverseSequence) X(ResizeBilinear) X(ResizeBilinearGrad)           \
  X(ResizeNearestNeighbor) X(ResizeNearestNeighborGrad)                                                    \
  /* products, state, random numbers: matmul.cc, ... */                                                    \
  X(ReadVariableOp) X(Assign) X(AssignVariableOp) X(AssignAdd) X(AssignSub) X(AssignAddVariableOp)         \
  X(AssignSubVariableOp) X(ApplyGradientDescent) X(ResourceApplyGradientDescent) X(ApplyMomentum)          \
  X(ResourceApplyMomentum) X(ResourceApplyKerasMomentum) X(ApplyAdagrad) X(ResourceApplyAdagrad)           \
  X(ResourceApplyAdagradV2) X(ApplyAdam) X(ResourceApplyAdam) X(ApplyRMSProp) X(ResourceApplyRMSProp)      \
  X(ApplyFtrl) X(ResourceApplyFtrl) X(SparseApplyMomentum) X(ResourceSparseApplyMomentum)                  \
  X(ResourceSparseApplyKerasMomentum) X(SparseApplyAdagrad) X(ResourceSparseApplyAdagrad)                  \
  X(SparseApplyRMSProp) X(ResourceSparseApplyRMSProp) X(SparseApplyFtrl) X(ResourceSparseApplyFtrl)        \
  X(RandomUniform) X(RandomStandardNormal) X(TruncatedNormal) X(RandomUniformInt)                          \
  X(StatelessRandomUniform) X(StatelessRandomUniformV2) X(StatelessRandomNormalV2)                         \
  X(StatelessTruncatedNormalV2) X(StatelessRandomGetKeyCounter)                                            \
  X(MatMul) X(BatchMatMul) X(BatchMatMulV2) X(BatchMatMulV3Float) X(BatchMatMulV3Double)                   \
  X(BatchMatMulV3Bfloat16) X(BatchMatMulV3Int32) X(BatchMatMulV3Int64) X(Einsum)                           \
  /* collective.cc */                                                                                      \
  X(CollectiveReduce) X(CollectiveReduceV2) X(CollectiveGather) X(CollectiveGatherV2)                      \
  X(CollectiveBcastSend) X(CollectiveBcastSendV2) X(CollectiveBcastRecv) X(CollectiveBcastRecvV2)          \
  X(NcclAllReduce)                                                                                         \
  X(Conv2D) X(Conv2DBackpropInput) X(Conv2DBackpropFilter) X(DepthwiseConv2dNative)                        \
  X(DepthwiseConv2dNativeBackpropInput) X(DepthwiseConv2dNativeBackpropFilter)

namespace tenon::gpu {

#define TENON_GPU_DECLARE(name) extern const tenon_kernel_registration k##name;
TENON_GPU_KERNELS(TENON_GPU_DECLARE)
#undef TENON_GPU_DECLARE

namespace {
#define TENON_GPU_ADDRESS(name) &k##name,
constexpr const tenon_kernel_registration* kRegistrations[] = {TENON_GPU_KERNELS(TENON_GPU_ADDRESS)};
#undef TENON_GPU_ADDRESS
}  // namespace

constinit const tenon_kernel_package kKernelPackage = {TENON_HEAD(tenon_kernel_package), kRegistrations, TENON_PLUGIN_COUNT(kRegistrations)};

}  // namespace tenon::gpu
