// SPDX-License-Identifier: Apache-2.0
// Package training: optimizer steps on variables.
#include "tenon/sdk/package.h"

TENON_OP_PLUGIN("tenon.ops.training", "0.1.0", "Optimizer steps on variables.", TENON_OPS_NAMED_DIMS)
