// SPDX-License-Identifier: Apache-2.0
// Package linalg: matrices factored, inverted, solved, and their diagonals. Its kernels run on the host.
#include "tenon/sdk/package.h"

TENON_OP_AND_KERNEL_PLUGIN("tenon.ops.linalg", "0.1.0",
                           "Linear algebra: factorizations, eigenvalues, solvers, functions of matrices, diagonals.",
                           TENON_OPS_NAMED_DIMS)
