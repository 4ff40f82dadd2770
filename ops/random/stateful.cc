// SPDX-License-Identifier: Apache-2.0
// Random numbers whose generator's state is a variable: a vector of int64, for Philox the counter's two numbers and the
// key. algorithm: 1, Philox, or 3, the device's own choice.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

void DrawnShape(ShapeContext& c) {
  c.WithRank(0, 0);
  c.WithRank(1, 0);
  c.SetOutput(0, c.WantedShape(2));
}

consteval tenon_op_definition Stateful(OpDefinition op, tenon_shape_function shape = ShapeFunction<DrawnShape>) {
  if (op.inputs.empty()) op.inputs = "resource: resource, algorithm: int64, shape: shape_dtype";
  op.outputs = "output: dtype";
  if (op.attrs.empty()) op.attrs = "dtype: type = float; shape_dtype: type = int64";
  if (op.constraints.empty()) op.constraints = "rank(algorithm) == 0; rank(shape) == 1; value(shape) >= 0";
  op.traits = TENON_OP_STATEFUL | TENON_OP_WRITES_STATE;
  op.shape = shape;
  return DefineOp(op);
}

void BetweenShape(ShapeContext& c) {
  c.WithRank(3, 0);
  c.WithRank(4, 0);
  DrawnShape(c);
}

}  // namespace

TENON_OP(kStatefulUniform) = Stateful({.name = "StatefulUniform", .doc = "Random numbers, equally likely in [0, 1)."});
TENON_OP(kStatefulStandardNormalV2) =
    Stateful({.name = "StatefulStandardNormalV2",
              .doc = "Random numbers of the normal distribution with mean 0 and deviation 1."});
TENON_OP(kStatefulTruncatedNormal) =
    Stateful({.name = "StatefulTruncatedNormal",
              .doc = "StatefulStandardNormalV2 without what is more than two deviations from the mean."});
TENON_OP(kStatefulUniformFullInt) = Stateful({
    .name = "StatefulUniformFullInt",
    .attrs = "dtype: type = uint64; shape_dtype: type = int64",
    .doc = "Random integers, all of the type equally likely.",
});
TENON_OP(kStatefulUniformInt) = Stateful({
    .name = "StatefulUniformInt",
    .inputs = "resource: resource, algorithm: int64, shape: shape_dtype, minval: dtype, maxval: dtype",
    .attrs = "dtype: type = int64; shape_dtype: type = int64",
    .constraints = "rank(algorithm) == 0; rank(shape) == 1; value(shape) >= 0; rank(minval) == 0; rank(maxval) == 0",
    .doc = "Random integers, equally likely in [minval, maxval).",
}, ShapeFunction<BetweenShape>);

static void SkipShape(ShapeContext& c) {
  for (int i = 0; i < 3; ++i) c.WithRank(i, 0);
  if (c.output_count() > 0) c.SetOutput(0, {3});
}

TENON_OP(kRngSkip) = DefineOp({
    .name = "RngSkip",
    .inputs = "resource: resource, algorithm: int64, delta: int64",
    .constraints = "rank(algorithm) == 0; rank(delta) == 0",
    .doc = "Advances the state as if delta numbers had been drawn.",
    .traits = TENON_OP_STATEFUL | TENON_OP_WRITES_STATE,
    .shape = ShapeFunction<SkipShape>,
});

TENON_OP(kRngReadAndSkip) = DefineOp({
    .name = "RngReadAndSkip",
    .inputs = "resource: resource, alg: int32, delta: uint64",
    .outputs = "value: int64",
    .constraints = "rank(alg) == 0; rank(delta) == 0",
    .doc = "The state, and advances it as if delta numbers had been drawn.",
    .traits = TENON_OP_STATEFUL | TENON_OP_WRITES_STATE,
    .shape = ShapeFunction<SkipShape>,
});

}  // namespace tenon::ops
