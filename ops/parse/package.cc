// SPDX-License-Identifier: Apache-2.0
// Package parse: tensors out of serialized Examples, CSV, JSON, bytes and texts.
#include "tenon/sdk/package.h"

TENON_OP_AND_KERNEL_PLUGIN("tenon.ops.parse", "0.1.0",
                           "Tensors out of serialized Examples, CSV, JSON, bytes and texts.", TENON_OPS_NAMED_DIMS)
