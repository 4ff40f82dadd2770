// SPDX-License-Identifier: Apache-2.0
// Package control: constants, feeds, identities, branches, loops, calls, sends and receives. One line for each op.
#include "tenon/sdk/package.h"

TENON_OPS(
    kArg,
    kCase,
    kConst,
    kControlTrigger,
    kEnter,
    kExit,
    kHostRecv,
    kHostSend,
    kIdentity,
    kIdentityN,
    kIf,
    kLoopCond,
    kMerge,
    kNextIteration,
    kNoOp,
    kPartitionedCall,
    kPlaceholder,
    kPlaceholderWithDefault,
    kPreventGradient,
    kRecv,
    kRefEnter,
    kRefExit,
    kRefMerge,
    kRefNextIteration,
    kRefSwitch,
    kRetval,
    kSend,
    kStatefulPartitionedCall,
    kStatelessCase,
    kStatelessIf,
    kStatelessWhile,
    kStopGradient,
    kSwitch,
    kWhile)

TENON_OP_PLUGIN("tenon.ops.control", "0.1.0",
                "Constants, feeds, identities, branches, loops, calls, sends and receives.")
