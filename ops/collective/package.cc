// SPDX-License-Identifier: Apache-2.0
// Package collective: reductions, gathers and broadcasts among the devices of a group.
#include "tenon/sdk/package.h"

TENON_OP_AND_KERNEL_PLUGIN("tenon.ops.collective", "0.1.0", "Reductions, gathers and broadcasts among the devices of a group.")
