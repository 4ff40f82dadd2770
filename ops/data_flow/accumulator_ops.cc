// SPDX-License-Identifier: Apache-2.0
// What the ops of accumulators mean; how an accumulator behaves stands in accumulator.h. Handles are references to a
// string, or resources.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void ReferenceShape(ShapeContext& c) { c.SetOutput(0, {2}); }

// What was accumulated says its shape.
static void TakenShape(ShapeContext& c) { c.WithRank(1, 0); }
static void SparseTakenShape(ShapeContext& c) {
  c.WithRank(1, 0);
  c.SetOutput(0, {kUnknown});
  c.SetOutput(2, {kUnknown});
}

TENON_OP(kConditionalAccumulator) = DefineOp({
    .name = "ConditionalAccumulator",
    .outputs = "handle: Ref(string)",
    .attrs = "dtype: numbertype; shape: shape; container: string = ''; shared_name: string = ''; reduction_type: "
             "{'MEAN', 'SUM'} = 'MEAN'",
    .doc = "Sums gradients of steps until enough of them have come; then their sum or mean may be taken, once.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<ReferenceShape>,
});

TENON_OP(kResourceConditionalAccumulator) = DefineOp({
    .name = "ResourceConditionalAccumulator",
    .outputs = "handle: resource",
    .attrs = "dtype: numbertype; shape: shape; container: string = ''; shared_name: string = ''; reduction_type: "
             "{'MEAN', 'SUM'} = 'MEAN'",
    .doc = "Sums gradients of steps until enough of them have come; then their sum or mean may be taken, once.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<ScalarShape>,
});

TENON_OP(kSparseConditionalAccumulator) = DefineOp({
    .name = "SparseConditionalAccumulator",
    .outputs = "handle: Ref(string)",
    .attrs = "dtype: numbertype; shape: shape; container: string = ''; shared_name: string = ''; reduction_type: "
             "{'MEAN', 'SUM'} = 'MEAN'",
    .doc = "Sums sparse gradients of steps, row by row, until enough of them have come; then their sum or mean may be "
           "taken, once.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<ReferenceShape>,
});

TENON_OP(kAccumulatorApplyGradient) = DefineOp({
    .name = "AccumulatorApplyGradient",
    .inputs = "handle: Ref(string), local_step: int64, gradient: dtype",
    .attrs = "dtype: numbertype",
    .constraints = "rank(local_step) == 0",
    .doc = "Adds a gradient, unless it was made in a step before the accumulator's.",
});

TENON_OP(kAccumulatorTakeGradient) = DefineOp({
    .name = "AccumulatorTakeGradient",
    .inputs = "handle: Ref(string), num_required: int32",
    .outputs = "average: dtype",
    .attrs = "dtype: numbertype",
    .constraints = "rank(num_required) == 0",
    .doc = "Takes the sum or mean of all gradients once there are num_required; the accumulator is empty then, and its "
           "step goes on by one.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<TakenShape>,
});

TENON_OP(kAccumulatorNumAccumulated) = DefineOp({
    .name = "AccumulatorNumAccumulated",
    .inputs = "handle: Ref(string)",
    .outputs = "num_accumulated: int32",
    .doc = "How many gradients are in the accumulator.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScalarShape>,
});

TENON_OP(kAccumulatorSetGlobalStep) = DefineOp({
    .name = "AccumulatorSetGlobalStep",
    .inputs = "handle: Ref(string), new_global_step: int64",
    .constraints = "rank(new_global_step) == 0",
    .doc = "Sets the accumulator's step: gradients of earlier ones are dropped.",
});

TENON_OP(kResourceAccumulatorApplyGradient) = DefineOp({
    .name = "ResourceAccumulatorApplyGradient",
    .inputs = "handle: resource, local_step: int64, gradient: dtype",
    .attrs = "dtype: numbertype",
    .constraints = "rank(local_step) == 0",
    .doc = "Adds a gradient, unless it was made in a step before the accumulator's.",
    .traits = TENON_OP_STATEFUL,
});

TENON_OP(kResourceAccumulatorTakeGradient) = DefineOp({
    .name = "ResourceAccumulatorTakeGradient",
    .inputs = "handle: resource, num_required: int32",
    .outputs = "average: dtype",
    .attrs = "dtype: numbertype",
    .constraints = "rank(num_required) == 0",
    .doc = "Takes the sum or mean of all gradients once there are num_required; the accumulator is empty then, and its "
           "step goes on by one.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<TakenShape>,
});

TENON_OP(kResourceAccumulatorNumAccumulated) = DefineOp({
    .name = "ResourceAccumulatorNumAccumulated",
    .inputs = "handle: resource",
    .outputs = "num_accumulated: int32",
    .doc = "How many gradients are in the accumulator.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScalarShape>,
});

TENON_OP(kResourceAccumulatorSetGlobalStep) = DefineOp({
    .name = "ResourceAccumulatorSetGlobalStep",
    .inputs = "handle: resource, new_global_step: int64",
    .constraints = "rank(new_global_step) == 0",
    .doc = "Sets the accumulator's step: gradients of earlier ones are dropped.",
    .traits = TENON_OP_STATEFUL,
});

TENON_OP(kSparseAccumulatorApplyGradient) = DefineOp({
    .name = "SparseAccumulatorApplyGradient",
    .inputs = "handle: Ref(string), local_step: int64, gradient_indices: int64, gradient_values: dtype, "
              "gradient_shape: int64",
    .attrs = "dtype: numbertype; has_known_shape: bool",
    .constraints = "rank(local_step) == 0",
    .doc = "Adds rows of a gradient, unless it was made in a step before the accumulator's.",
});

TENON_OP(kSparseAccumulatorTakeGradient) = DefineOp({
    .name = "SparseAccumulatorTakeGradient",
    .inputs = "handle: Ref(string), num_required: int32",
    .outputs = "indices: int64, values: dtype, shape: int64",
    .attrs = "dtype: numbertype",
    .constraints = "rank(num_required) == 0",
    .doc = "Takes the sum or mean of all gradients, row by row, once there are num_required.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SparseTakenShape>,
});

}  // namespace tenon::ops
