// SPDX-License-Identifier: Apache-2.0
// Package lookup: tables from keys to values. Its kernels run on the host.
#include "tenon/sdk/package.h"

TENON_OP_AND_KERNEL_PLUGIN("tenon.ops.lookup", "0.1.0", "Tables from keys to values.", TENON_OPS_NAMED_DIMS)
