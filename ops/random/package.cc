// SPDX-License-Identifier: Apache-2.0
// Package random: random numbers. One line for each op.
#include "tenon/sdk/package.h"

TENON_OPS(
    kComputeAccidentalHits,
    kLogUniformCandidateSampler,
    kRandomShuffle,
    kRandomStandardNormal,
    kRandomUniform,
    kRandomUniformInt,
    kStatelessRandomGetKeyCounter,
    kStatelessRandomNormalV2,
    kStatelessRandomUniform,
    kStatelessRandomUniformV2,
    kStatelessTruncatedNormalV2,
    kTruncatedNormal)

TENON_OP_PLUGIN("tenon.ops.random", "0.1.0", "Random numbers.")
