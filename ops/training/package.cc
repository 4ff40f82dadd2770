// SPDX-License-Identifier: Apache-2.0
// Package training: optimizer steps on variables. One line for each op.
#include "tenon/sdk/package.h"

TENON_OPS(
    kApplyAdagrad,
    kApplyAdam,
    kApplyFtrl,
    kApplyGradientDescent,
    kApplyMomentum,
    kApplyRMSProp,
    kResourceApplyAdagrad,
    kResourceApplyAdagradV2,
    kResourceApplyAdam,
    kResourceApplyFtrl,
    kResourceApplyGradientDescent,
    kResourceApplyKerasMomentum,
    kResourceApplyMomentum,
    kResourceApplyRMSProp,
    kResourceSparseApplyAdagrad,
    kResourceSparseApplyFtrl,
    kResourceSparseApplyKerasMomentum,
    kResourceSparseApplyMomentum,
    kResourceSparseApplyRMSProp,
    kSparseApplyAdagrad,
    kSparseApplyFtrl,
    kSparseApplyMomentum,
    kSparseApplyRMSProp)

TENON_OP_PLUGIN("tenon.ops.training", "0.1.0", "Optimizer steps on variables.")
