// SPDX-License-Identifier: Apache-2.0
// Package control: constants, feeds, identities, branches, loops, calls, assertions, sends and receives.
#include "tenon/sdk/package.h"

TENON_OP_AND_KERNEL_PLUGIN("tenon.ops.control", "0.1.0",
                           "Constants, feeds, identities, branches, loops, calls, assertions, sends and receives.",
                           TENON_OPS_NAMED_DIMS)
