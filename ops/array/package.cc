// SPDX-License-Identifier: Apache-2.0
// Package array: shapes, slices, gathers and other moves of data.
#include "tenon/sdk/package.h"

TENON_OP_PLUGIN("tenon.ops.array", "0.1.0", "Shapes, slices, gathers and other moves of data.", TENON_OPS_NAMED_DIMS)
