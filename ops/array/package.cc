// SPDX-License-Identifier: Apache-2.0
// Package array: shapes, slices, gathers and other moves of data. One line for each op.
#include "tenon/sdk/package.h"

TENON_OPS(
    kBroadcastGradientArgs,
    kBroadcastTo,
    kConcatOffset,
    kConcatV2,
    kDynamicPartition,
    kDynamicStitch,
    kExpandDims,
    kFill,
    kGather,
    kGatherV2,
    kInvertPermutation,
    kOneHot,
    kOnesLike,
    kPack,
    kPad,
    kPadV2,
    kRange,
    kRank,
    kReshape,
    kReverseV2,
    kSelect,
    kSelectV2,
    kShape,
    kShapeN,
    kSize,
    kSlice,
    kSplit,
    kSplitV,
    kSqueeze,
    kStridedSlice,
    kStridedSliceGrad,
    kTile,
    kTranspose,
    kUnique,
    kUnpack,
    kWhere,
    kZerosLike)

TENON_OP_PLUGIN("tenon.ops.array", "0.1.0", "Shapes, slices, gathers and other moves of data.")
