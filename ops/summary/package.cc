// SPDX-License-Identifier: Apache-2.0
// Package summary: what a step says of itself to TensorBoard.
#include "tenon/sdk/package.h"

TENON_OP_AND_KERNEL_PLUGIN("tenon.ops.summary", "0.1.0", "Summaries for TensorBoard.")
