// SPDX-License-Identifier: Apache-2.0
// Package image: pictures, read, written and worked on.
#include "tenon/sdk/package.h"

TENON_OP_AND_KERNEL_PLUGIN("tenon.ops.image", "0.1.0", "Pictures: read, written and worked on.", TENON_OPS_NAMED_DIMS)
