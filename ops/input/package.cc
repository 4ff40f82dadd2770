// SPDX-License-Identifier: Apache-2.0
// Package input: whole files, names of files, and readers of records.
#include "tenon/sdk/package.h"

TENON_OP_AND_KERNEL_PLUGIN("tenon.ops.input", "0.1.0", "Files, their names, and readers of records.")
