// SPDX-License-Identifier: Apache-2.0
// Package data_flow: queues, staging areas, barriers and accumulators; tensor arrays, lists of tensors and optionals.
#include "tenon/sdk/package.h"

TENON_OP_AND_KERNEL_PLUGIN("tenon.ops.data_flow", "0.1.0", "Queues, staging areas, barriers, accumulators, tensor arrays, lists of tensors and optionals.")
