// SPDX-License-Identifier: Apache-2.0
// Package nn: activations, convolutions, poolings, batch normalisation, softmax, losses and recurrent layers.
#include "tenon/sdk/package.h"

TENON_OP_PLUGIN("tenon.ops.nn", "0.1.0",
                "Activations, convolutions, poolings, batch normalisation, softmax, losses and recurrent layers.",
                TENON_OPS_NAMED_DIMS)
