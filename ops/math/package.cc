// SPDX-License-Identifier: Apache-2.0
// Package math: arithmetic, comparisons, reductions and matrix products.
#include "tenon/sdk/package.h"

TENON_OP_PLUGIN("tenon.ops.math", "0.1.0", "Arithmetic, comparisons, reductions and matrix products.",
                TENON_OPS_NAMED_DIMS)
