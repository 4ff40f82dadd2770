// SPDX-License-Identifier: Apache-2.0
// Package nn: activations, convolutions, poolings, batch normalisation, softmax and losses. One line for each op.
#include "tenon/sdk/package.h"

TENON_OPS(
    kAvgPool,
    kAvgPoolGrad,
    kBiasAdd,
    kBiasAddGrad,
    kConv2D,
    kConv2DBackpropFilter,
    kConv2DBackpropInput,
    kElu,
    kEluGrad,
    kFusedBatchNorm,
    kFusedBatchNormGrad,
    kFusedBatchNormGradV2,
    kFusedBatchNormGradV3,
    kFusedBatchNormV2,
    kFusedBatchNormV3,
    kInTopKV2,
    kL2Loss,
    kLeakyRelu,
    kLeakyReluGrad,
    kLogSoftmax,
    kMaxPool,
    kMaxPoolGrad,
    kMaxPoolGradGrad,
    kRelu,
    kRelu6,
    kRelu6Grad,
    kReluGrad,
    kSoftmax,
    kSoftmaxCrossEntropyWithLogits,
    kSoftplus,
    kSoftplusGrad,
    kSparseSoftmaxCrossEntropyWithLogits)

TENON_OP_PLUGIN("tenon.ops.nn", "0.1.0", "Activations, convolutions, poolings, batch normalisation, softmax and losses.")
