// SPDX-License-Identifier: Apache-2.0
// Package random: random numbers.
#include "tenon/sdk/package.h"

TENON_OP_PLUGIN("tenon.ops.random", "0.1.0", "Random numbers.", TENON_OPS_NAMED_DIMS)
