// SPDX-License-Identifier: Apache-2.0
// Package unicode: what of texts only Unicode's tables know. Its kernels run on the host.
#include "tenon/sdk/package.h"

TENON_OP_AND_KERNEL_PLUGIN("tenon.ops.unicode", "0.1.0",
                           "Texts of any encoding as characters and back; letters small and capital; scripts.",
                           TENON_OPS_NAMED_DIMS)
