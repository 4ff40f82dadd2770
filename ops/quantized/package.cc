// SPDX-License-Identifier: Apache-2.0
// Package quantized: real numbers as small integers.
#include "tenon/sdk/package.h"

#include "int8_pass.h"

TENON_OP_PACKAGE(kOpPackage, tenon_ops);
static const tenon_capability kCapabilities[] = {TENON_PROVIDES(OPS, &kOpPackage),
                                                 TENON_PROVIDES(GRAPH_PASS, &tenon::ops::kInt8Pass)};
TENON_PLUGIN("tenon.ops.quantized", "0.1.0",
             "Quantization, simulated and real, arithmetic of quantized numbers, and steps of 8-bit integers.",
             kCapabilities)
