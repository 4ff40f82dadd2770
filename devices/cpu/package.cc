// SPDX-License-Identifier: Apache-2.0
// Which kernels there are: one line an op. Each is defined in a file of kernels/ with TENON_CPU_KERNEL.
#include "device.h"

#define TENON_CPU_KERNELS(X)                                                                       \
  /* binary.cc */                                                                                  \
  X(Add) X(AddV2) X(Sub) X(Mul) X(Maximum) X(Minimum) X(SquaredDifference) X(RealDiv) X(Div)       \
  X(FloorDiv) X(FloorMod) X(DivNoNan) X(Pow) X(TruncateDiv) X(MulNoNan) X(Xdivy) X(Xlogy)          \
  /* compare.cc */                                                                                 \
  X(Equal) X(NotEqual) X(Less) X(LessEqual) X(Greater) X(GreaterEqual) X(LogicalAnd) X(LogicalOr)  \
  X(LogicalNot) X(IsNan) X(IsInf) X(IsFinite)                                                      \
  /* unary.cc */                                                                                   \
  X(Neg) X(Abs) X(Sign) X(Square) X(Reciprocal) X(Sqrt) X(Rsqrt) X(Floor) X(Ceil) X(Round) X(Exp)  \
  X(Expm1) X(Log) X(Log1p) X(Sin) X(Cos) X(Tanh) X(Erf) X(Sigmoid) X(TanhGrad) X(SigmoidGrad)      \
  X(SqrtGrad) X(RsqrtGrad) X(ReciprocalGrad) X(Erfc)                                               \
  /* complex.cc */                                                                                 \
  X(Conj)                                                                                          \
  /* activation.cc */                                                                              \
  X(Relu) X(Relu6) X(Elu) X(Softplus) X(LeakyRelu) X(ReluGrad) X(Relu6Grad) X(EluGrad)             \
  X(SoftplusGrad) X(LeakyReluGrad)                                                                 \
  /* matmul.cc */                                                                                  \
  X(MatMul) X(BatchMatMul) X(BatchMatMulV2) X(MatMulPlain) X(BatchMatMulPlain) X(BatchMatMulV2Plain)\
  X(BatchMatMulV3Float) X(BatchMatMulV3Double) X(BatchMatMulV3Bfloat16) X(BatchMatMulV3Int32)      \
  X(BatchMatMulV3Int64) X(BatchMatMulV3Int16) X(BatchMatMulV3Complex64) X(BatchMatMulV3Complex128) \
  /* variable.cc */                                                                                \
  X(ReadVariableOp) X(Assign) X(AssignVariableOp) X(AssignAdd) X(AssignSub)                        \
  X(AssignAddVariableOp) X(AssignSubVariableOp) X(ScatterAdd) X(ScatterSub) X(ResourceScatterAdd)  \
  X(ResourceScatterSub) X(ScatterUpdate) X(ResourceScatterUpdate) X(ResourceGatherNd)              \
  /* training.cc */                                                                                \
  X(ApplyGradientDescent) X(ResourceApplyGradientDescent) X(ApplyMomentum)                         \
  X(ResourceApplyMomentum) X(ApplyAdagrad) X(ResourceApplyAdagrad) X(ApplyAdam)                    \
  X(ResourceApplyAdam) X(ResourceSparseApplyAdagrad)                                               \
  /* reduce.cc */                                                                                  \
  X(Sum) X(Mean) X(Prod) X(Max) X(Min) X(All) X(Any)                                               \
  /* slice.cc */                                                                                   \
  X(Slice) X(StridedSlice) X(StridedSliceGrad) X(ReverseV2) X(Transpose) X(Tile) X(BroadcastTo)    \
  X(Pad) X(PadV2)                                                                                  \
  /* concat.cc */                                                                                  \
  X(Concat) X(ConcatV2) X(Pack) X(Split) X(SplitV) X(Unpack)                                       \
  /* shape.cc */                                                                                   \
  X(Shape) X(ShapeN) X(Size) X(Rank) X(BroadcastGradientArgs) X(ConcatOffset)                      \
  X(InvertPermutation) X(Reshape) X(ExpandDims) X(Squeeze) X(EnsureShape)                          \
  /* fill.cc */                                                                                    \
  X(Fill) X(ZerosLike) X(OnesLike) X(Range)                                                        \
  /* gather.cc */                                                                                  \
  X(Gather) X(GatherV2) X(ResourceGather)                                                          \
  /* select.cc */                                                                                  \
  X(Select) X(SelectV2) X(Where) X(OneHot)                                                         \
  /* dynamic.cc */                                                                                 \
  X(Unique) X(UniqueWithCounts) X(DynamicStitch) X(DynamicPartition) X(UnsortedSegmentSum)         \
  X(SegmentSum)                                                                                    \
  /* cast.cc */                                                                                    \
  X(Cast) X(AddN) X(CheckNumerics) X(ArgMax) X(ArgMin)                                             \
  /* bias.cc */                                                                                    \
  X(BiasAdd) X(BiasAddGrad) X(L2Loss) X(InTopKV2)                                                  \
  /* softmax.cc */                                                                                 \
  X(Softmax) X(LogSoftmax) X(SoftmaxCrossEntropyWithLogits) X(SparseSoftmaxCrossEntropyWithLogits) \
  /* conv.cc */                                                                                    \
  X(Conv2D) X(Conv2DBackpropInput) X(Conv2DBackpropFilter)                                         \
  X(Conv2DPlain) X(Conv2DBackpropInputPlain) X(Conv2DBackpropFilterPlain)                          \
  /* pool.cc */                                                                                    \
  X(MaxPool) X(AvgPool) X(MaxPoolGrad) X(MaxPoolGradGrad) X(AvgPoolGrad)                           \
  /* random.cc */                                                                                  \
  X(RandomUniform) X(RandomStandardNormal) X(TruncatedNormal) X(RandomUniformInt)                  \
  /* batch_norm.cc */                                                                              \
  X(FusedBatchNorm) X(FusedBatchNormV2) X(FusedBatchNormV3) X(FusedBatchNormGrad)                  \
  X(FusedBatchNormGradV2) X(FusedBatchNormGradV3)                                                  \
  /* mixed_matmul.cc */                                                                            \
  X(BatchMatMulV3Bytes) X(BatchMatMulV3ByteX) X(BatchMatMulV3ByteY)                                \
  /* einsum.cc */                                                                                  \
  X(Einsum)                                                                                        \
  /* cumulative.cc */                                                                              \
  X(Cumsum) X(Cumprod)                                                                             \
  /* gather_nd.cc */                                                                               \
  X(GatherNd) X(ScatterNd) X(TensorScatterUpdate) X(TensorScatterAdd) X(TensorScatterSub)          \
  X(TensorScatterMin) X(TensorScatterMax)                                                          \
  /* blocks.cc */                                                                                  \
  X(SpaceToBatchND) X(BatchToSpaceND) X(SpaceToDepth) X(DepthToSpace)                              \
  /* mirror_pad.cc */                                                                              \
  X(MirrorPad) X(MirrorPadGrad)                                                                    \
  /* order.cc */                                                                                   \
  X(ReverseSequence) X(TopKV2) X(MatrixBandPart) X(LinSpace)                                       \
  /* depthwise_conv.cc */                                                                          \
  X(DepthwiseConv2dNative) X(DepthwiseConv2dNativeBackpropInput)                                   \
  X(DepthwiseConv2dNativeBackpropFilter)                                                           \
  /* lrn.cc */                                                                                     \
  X(LRN) X(LRNGrad)                                                                                \
  /* resize.cc */                                                                                  \
  X(ResizeBilinear) X(ResizeBilinearGrad) X(ResizeNearestNeighbor) X(ResizeNearestNeighborGrad)    \
  /* training.cc, the others */                                                                    \
  X(SparseApplyAdagrad) X(ResourceApplyAdagradV2) X(ResourceSparseApplyMomentum)                   \
  X(ResourceApplyKerasMomentum) X(ResourceSparseApplyKerasMomentum) X(ApplyRMSProp)                \
  X(ResourceApplyRMSProp) X(ApplyFtrl) X(ResourceApplyFtrl) X(SparseApplyFtrl)                     \
  X(ResourceSparseApplyFtrl) X(SparseApplyMomentum) X(SparseApplyRMSProp)                          \
  X(ResourceSparseApplyRMSProp)                                                                    \
  /* stateless_random.cc */                                                                        \
  X(StatelessRandomUniform) X(StatelessRandomUniformV2) X(StatelessRandomNormalV2)                 \
  X(StatelessTruncatedNormalV2) X(StatelessRandomGetKeyCounter) X(RandomShuffle)                   \
  X(LogUniformCandidateSampler) X(ComputeAccidentalHits)                                           \
  /* sparse.cc */                                                                                  \
  X(SparseToDense) X(SparseReshape) X(SparseFillEmptyRows) X(SparseFillEmptyRowsGrad)              \
  X(SparseTensorDenseMatMul)                                                                       \
  /* sparse_segment.cc */                                                                          \
  X(SparseSegmentSum) X(SparseSegmentMean) X(SparseSegmentSumGrad) X(SparseSegmentMeanGrad)        \
  X(SparseSegmentSqrtN) X(SparseSegmentSqrtNGrad) X(SparseSegmentSumGradV2)                        \
  X(SparseSegmentMeanGradV2) X(SparseSegmentSqrtNGradV2)                                           \
  /* bincount.cc, ragged.cc */                                                                      \
  X(Bincount) X(DenseBincount) X(RaggedTensorToTensor)                                             \
  /* strings, beside the plain kernels of the op */                                                \
  X(SliceString) X(StridedSliceString) X(TransposeString) X(TileString) X(ReverseV2String)         \
  X(ConcatV2String) X(PackString) X(SplitString) X(UnpackString) X(GatherString)                   \
  X(GatherV2String) X(SelectString) X(SelectV2String) X(FillString) X(EqualString)                 \
  X(NotEqualString) X(AddString) X(ZerosLikeString) X(OneHotString) X(SplitVString)                \
  X(BroadcastToString) X(PadString) X(PadV2String) X(StridedSliceGradString) X(UniqueString)       \
  X(DynamicStitchString) X(DynamicPartitionString) X(ConcatString) X(GatherNdString)               \
  X(TensorScatterUpdateString) X(ReverseSequenceString) X(SpaceToDepthString)                      \
  X(DepthToSpaceString) X(MirrorPadString) X(ResourceGatherString)                            \
  X(UniqueWithCountsString)

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
