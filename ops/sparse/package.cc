// SPDX-License-Identifier: Apache-2.0
// Package sparse: sparse and ragged tensors as values of their own. Its kernels run on the host.
#include "tenon/sdk/package.h"

TENON_OP_AND_KERNEL_PLUGIN(
    "tenon.ops.sparse", "0.1.0",
    "Sparse and ragged tensors: packed into texts and variants, together and apart, sums, counts, sets.",
    TENON_OPS_NAMED_DIMS)
