// SPDX-License-Identifier: Apache-2.0
// Package state: variables and stacks.
#include "tenon/sdk/package.h"

TENON_OP_AND_KERNEL_PLUGIN("tenon.ops.state", "0.1.0", "Variables and stacks.", TENON_OPS_NAMED_DIMS)
