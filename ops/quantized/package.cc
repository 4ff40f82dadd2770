// SPDX-License-Identifier: Apache-2.0
// Package quantized: real numbers as small integers.
#include "tenon/sdk/package.h"

TENON_OP_PLUGIN(
    "tenon.ops.quantized", "0.1.0",
    "Quantization, simulated and real, arithmetic of quantized numbers, and what steps of 8-bit integers run.",
    TENON_OPS_NAMED_DIMS)
