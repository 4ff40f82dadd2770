// SPDX-License-Identifier: Apache-2.0
// Package state: variables and stacks. One line for each op and each host kernel.
#include "tenon/sdk/package.h"

TENON_OPS(
    kAssign,
    kAssignAdd,
    kAssignAddVariableOp,
    kAssignSub,
    kAssignSubVariableOp,
    kAssignVariableOp,
    kDestroyResourceOp,
    kDisableCopyOnRead,
    kIsVariableInitialized,
    kReadVariableOp,
    kResourceGather,
    kResourceGatherNd,
    kResourceScatterAdd,
    kResourceScatterSub,
    kResourceScatterUpdate,
    kScatterAdd,
    kScatterSub,
    kScatterUpdate,
    kStackCloseV2,
    kStackPopV2,
    kStackPushV2,
    kStackV2,
    kVarHandleOp,
    kVarIsInitializedOp,
    kVariable,
    kVariableShape,
    kVariableV2)

TENON_KERNELS(
    kDestroyResourceOpKernel,
    kDisableCopyOnReadKernel,
    kIsVariableInitializedKernel,
    kStackCloseV2Kernel,
    kStackPopV2Kernel,
    kStackPushV2Kernel,
    kStackV2Kernel,
    kVarHandleOpKernel,
    kVarIsInitializedOpKernel,
    kVariableKernel,
    kVariableShapeKernel,
    kVariableV2Kernel)

TENON_OP_AND_KERNEL_PLUGIN("tenon.ops.state", "0.1.0", "Variables and stacks.")
