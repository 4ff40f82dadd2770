// SPDX-License-Identifier: Apache-2.0
// Nodes that exist for their control edges.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

TENON_OP(kNoOp) = DefineOp({
    .name = "NoOp",
    .roles = "no_op",
    .doc = "Does nothing; holds control edges together.",
    .traits = TENON_OP_NO_OP,
});

TENON_OP(kControlTrigger) = DefineOp({
    .name = "ControlTrigger",
    .roles = "control_trigger",
    .doc = "Does nothing; runs even when what it waits for was not taken.",
    .traits = TENON_OP_NO_OP | TENON_OP_CONTROL_TRIGGER,
});

}  // namespace tenon::ops
