// SPDX-License-Identifier: Apache-2.0
// Package summary: what a step says of itself to TensorBoard. One line for each op and each kernel, all of which run on the host.
#include "tenon/sdk/package.h"

TENON_OPS(
    kHistogramSummary,
    kImageSummary,
    kMergeSummary,
    kScalarSummary)

TENON_KERNELS(
    kHistogramSummaryKernel,
    kImageSummaryKernel,
    kMergeSummaryKernel,
    kScalarSummaryKernel)

TENON_OP_AND_KERNEL_PLUGIN("tenon.ops.summary", "0.1.0", "Summaries for TensorBoard.")
