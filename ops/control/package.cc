// SPDX-License-Identifier: Apache-2.0
// Package control: constants, feeds, identities, branches, loops, calls, assertions, sends and receives. One line for each op and each host kernel.
#include "tenon/sdk/package.h"

TENON_OPS(
    kArg,
    kAssert,
    kCase,
    kConst,
    kControlTrigger,
    kEnsureShape,
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
    kRefIdentity,
    kRefMerge,
    kRefNextIteration,
    kRefSwitch,
    kRemoteCall,
    kRetval,
    kSend,
    kStatefulPartitionedCall,
    kStatelessCase,
    kStatelessIf,
    kStatelessWhile,
    kStopGradient,
    kSwitch,
    kSwitchN,
    kSymbolicGradient,
    kToBool,
    kWhile)

TENON_KERNELS(
    kAssertKernel,
    kToBoolKernel)

TENON_OP_AND_KERNEL_PLUGIN("tenon.ops.control", "0.1.0",
                           "Constants, feeds, identities, branches, loops, calls, assertions, sends and receives.")
