// SPDX-License-Identifier: Apache-2.0
// Package string: texts. Its kernels run on the host.
#include "tenon/sdk/package.h"

TENON_OP_AND_KERNEL_PLUGIN(
    "tenon.ops.string", "0.1.0",
    "Texts: joined, split, cut, matched, replaced, hashed, encoded, written of numbers; tensors for people to read.",
    TENON_OPS_NAMED_DIMS)
