// SPDX-License-Identifier: Apache-2.0
// What the ops of barriers mean; how a barrier behaves stands in barrier.h. Handles are references to a string.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void BarrierShape(ShapeContext& c) { c.SetOutput(0, {2}); }

// The components' shapes are the barrier's, which a reference does not say.
static void BarrierTakenShape(ShapeContext& c) {
  c.WithRank(1, 0);
  c.SetOutput(0, {kUnknown});
  c.SetOutput(1, {kUnknown});
}

TENON_OP(kBarrier) = DefineOp({
    .name = "Barrier",
    .outputs = "handle: Ref(string)",
    .attrs = "component_types: list(type) >= 1; shapes: list(shape) = []; capacity: int = -1; container: string = ''; "
             "shared_name: string = ''",
    .doc = "Elements whose components come one by one, each under the element's key. All shapes must be given; there "
           "is no bound.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<BarrierShape>,
});

TENON_OP(kBarrierInsertMany) = DefineOp({
    .name = "BarrierInsertMany",
    .inputs = "handle: Ref(string), keys: string, values: T",
    .attrs = "T: type; component_index: int",
    .constraints = "rank(keys) == 1; rank(values) >= 1; dim(keys, 0) == dim(values, 0)",
    .doc = "Gives the elements with these keys one of their components, a row of values each.",
});

TENON_OP(kBarrierTakeMany) = DefineOp({
    .name = "BarrierTakeMany",
    .inputs = "handle: Ref(string), num_elements: int32",
    .outputs = "indices: int64, keys: string, values: component_types",
    .attrs = "component_types: list(type) >= 1; allow_small_batch: bool = false; wait_for_incomplete: bool = false; "
             "timeout_ms: int = -1",
    .constraints = "rank(num_elements) == 0",
    .doc = "Takes elements that have all their components, in the order of the inserts that began them, when there are "
           "so many.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<BarrierTakenShape>,
});

TENON_OP(kBarrierClose) = DefineOp({
    .name = "BarrierClose",
    .inputs = "handle: Ref(string)",
    .attrs = "cancel_pending_enqueues: bool = false",
    .doc = "Closes the barrier: no new keys come. Elements that lack a component are dropped, or may still get it.",
});

TENON_OP(kBarrierReadySize) = DefineOp({
    .name = "BarrierReadySize",
    .inputs = "handle: Ref(string)",
    .outputs = "size: int32",
    .doc = "How many elements have all their components.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScalarShape>,
});

TENON_OP(kBarrierIncompleteSize) = DefineOp({
    .name = "BarrierIncompleteSize",
    .inputs = "handle: Ref(string)",
    .outputs = "size: int32",
    .doc = "How many elements lack a component.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScalarShape>,
});

}  // namespace tenon::ops
