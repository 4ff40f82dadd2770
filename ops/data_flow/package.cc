// SPDX-License-Identifier: Apache-2.0
// Package data_flow: queues, staging areas, barriers and accumulators; tensor arrays, lists of tensors and optionals.
#include "tenon/sdk/package.h"

#include "crossing.h"

TENON_OP_PACKAGE(kOpPackage, tenon_ops, TENON_OPS_NAMED_DIMS);
TENON_KERNEL_PACKAGE(kKernelPackage, tenon_kernels);
static const tenon_capability kCapabilities[] = {TENON_PROVIDES(OPS, &kOpPackage),
                                                 TENON_PROVIDES(KERNELS, &kKernelPackage),
                                                 TENON_PROVIDES(VARIANTS, &tenon::ops::kCrossingVariants)};
TENON_PLUGIN("tenon.ops.data_flow", "0.1.0",
             "Queues, staging areas, barriers, accumulators, tensor arrays, lists of tensors and optionals.",
             kCapabilities)
