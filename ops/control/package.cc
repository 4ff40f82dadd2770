// SPDX-License-Identifier: Apache-2.0
// Package control: constants, feeds, identities, branches, loops and calls. One line for each op.
#include "tenon/sdk/package.h"

TENON_OPS(
    kArg,
    kConst,
    kControlTrigger,
    kEnter,
    kExit,
    kIdentity,
    kIdentityN,
    kLoopCond,
    kMerge,
    kNextIteration,
    kNoOp,
    kPartitionedCall,
    kPlaceholder,
    kPlaceholderWithDefault,
    kPreventGradient,
    kRefEnter,
    kRefExit,
    kRefMerge,
    kRefNextIteration,
    kRefSwitch,
    kRetval,
    kStatefulPartitionedCall,
    kStopGradient,
    kSwitch)

TENON_OP_PLUGIN("tenon.ops.control", "0.1.0",
                "Constants, feeds, identities, branches, loops and calls.")
