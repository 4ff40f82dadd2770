// SPDX-License-Identifier: Apache-2.0
// Package io: checkpoints and the strings that name them.
#include "tenon/sdk/package.h"

TENON_OP_AND_KERNEL_PLUGIN("tenon.ops.io", "0.1.0", "Checkpoints and the strings that name them.")
