// SPDX-License-Identifier: Apache-2.0
// Package collective: reductions, gathers and broadcasts among the devices of a group.
#include "tenon/sdk/package.h"

TENON_OP_PACKAGE(kOpPackage, tenon_ops, TENON_OPS_NAMED_DIMS);
TENON_KERNEL_PACKAGE(kKernelPackage, tenon_kernels);
static const tenon_capability kCapabilities[] = {TENON_PROVIDES(OPS, &kOpPackage),
                                                 TENON_PROVIDES(KERNELS, &kKernelPackage)};
TENON_PLUGIN("tenon.ops.collective", "0.1.0",
             "Reductions, gathers and broadcasts among the devices of a group, in one process or in many.",
             kCapabilities)
