// SPDX-License-Identifier: Apache-2.0
// Calls of functions in the graph's library, and their arguments and results. The engine inlines and
// differentiates calls, by trait.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

TENON_OP(kPartitionedCall) = DefineOp({
    .name = "PartitionedCall",
    .inputs = "args: Tin",
    .outputs = "output: Tout",
    .attrs = "Tin: list(type); Tout: list(type); f: func; config: string = ''; "
             "config_proto: string = ''; executor_type: string = ''",
    .doc = "The results of function f, which has no side effects.",
    .traits = TENON_OP_CALL,
});

TENON_OP(kStatefulPartitionedCall) = DefineOp({
    .name = "StatefulPartitionedCall",
    .inputs = "args: Tin",
    .outputs = "output: Tout",
    .attrs = "Tin: list(type); Tout: list(type); f: func; config: string = ''; "
             "config_proto: string = ''; executor_type: string = ''",
    .doc = "The results of function f, which may have side effects.",
    .traits = TENON_OP_CALL | TENON_OP_STATEFUL,
});

static void SymbolicGradientShape(ShapeContext& c) {
  for (int i = 0; i < c.output_count(); ++i) c.PassOn(i, i);
}

TENON_OP(kSymbolicGradient) = DefineOp({
    .name = "SymbolicGradient",
    .inputs = "input: Tin",
    .outputs = "output: Tout",
    .attrs = "Tin: list(type) >= 1; Tout: list(type) >= 1; f: func",
    .doc = "The gradients of function f's arguments: input is these, then the gradients of f's results.",
    .traits = TENON_OP_GRADIENT,
    .shape = ShapeFunction<SymbolicGradientShape>,
});

TENON_OP(kRemoteCall) = DefineOp({
    .name = "RemoteCall",
    .inputs = "target: string, args: Tin",
    .outputs = "output: Tout",
    .attrs = "Tin: list(type) >= 1; Tout: list(type) >= 1; f: func",
    .constraints = "rank(target) == 0",
    .doc = "The results of function f, computed on the device that target, a constant, names.",
    .traits = TENON_OP_CALL | TENON_OP_REMOTE | TENON_OP_STATEFUL,
});

TENON_OP(kArg) = DefineOp({
    .name = "_Arg",
    .outputs = "output: T",
    .attrs = "T: type; index: int >= 0",
    .roles = "argument",
    .doc = "Argument number index of the function that the node stands in.",
    .traits = TENON_OP_ARGUMENT | TENON_OP_STATEFUL,
});

TENON_OP(kRetval) = DefineOp({
    .name = "_Retval",
    .inputs = "input: T",
    .attrs = "T: type; index: int >= 0",
    .doc = "Result number index of the function that the node stands in.",
    .traits = TENON_OP_RESULT | TENON_OP_STATEFUL,
});

}  // namespace tenon::ops
