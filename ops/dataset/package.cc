// SPDX-License-Identifier: Apache-2.0
// Package dataset: datasets, which are pipelines of input, and iterators over them.
#include "tenon/sdk/package.h"

TENON_OP_AND_KERNEL_PLUGIN("tenon.ops.dataset", "0.1.0",
                           "Datasets, which are pipelines of input, and iterators over them.")
