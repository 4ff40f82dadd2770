// SPDX-License-Identifier: Apache-2.0
// Package io: checkpoints and the strings that name them. One line for each op and each host kernel.
#include "tenon/sdk/package.h"

TENON_OPS(
    kMergeV2Checkpoints,
    kRestoreV2,
    kSaveV2,
    kShardedFilename,
    kStaticRegexFullMatch,
    kStringJoin,
    kStringToHashBucketFast)

TENON_KERNELS(
    kMergeV2CheckpointsKernel,
    kRestoreV2Kernel,
    kSaveV2Kernel,
    kShardedFilenameKernel,
    kStaticRegexFullMatchKernel,
    kStringJoinKernel,
    kStringToHashBucketFastKernel)

TENON_OP_AND_KERNEL_PLUGIN("tenon.ops.io", "0.1.0", "Checkpoints and the strings that name them.")
