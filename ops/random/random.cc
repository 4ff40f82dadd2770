// SPDX-License-Identifier: Apache-2.0
// Random numbers. seed and seed2 both 0 ask for a seed of their own; the same seeds give the same stream
// (Philox, as TensorFlow's).
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

void RandomShape(ShapeContext& c) { c.SetOutput(0, c.WantedShape(0)); }

consteval tenon_op_definition Random(OpDefinition op) {
  op.properties = "draws";
  op.inputs = "shape: T";
  op.outputs = "output: dtype";
  op.attrs = "seed: int = 0; seed2: int = 0; dtype: {half, bfloat16, float, double}; T: {int32, int64}";
  op.constraints = "rank(shape) == 1; value(shape) >= 0";
  op.traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT;
  op.shape = ShapeFunction<RandomShape>;
  return DefineOp(op);
}

}  // namespace

TENON_OP(kRandomUniform) = Random({
    .name = "RandomUniform",
    .doc = "Random numbers, equally likely in [0, 1).",
});

TENON_OP(kRandomStandardNormal) = Random({
    .name = "RandomStandardNormal",
    .doc = "Random numbers of the normal distribution with mean 0 and deviation 1.",
});

TENON_OP(kTruncatedNormal) = Random({
    .name = "TruncatedNormal",
    .doc = "RandomStandardNormal without what is more than two deviations from the mean.",
});

static void RandomUniformIntShape(ShapeContext& c) {
  c.WithRank(1, 0);
  c.WithRank(2, 0);
  const auto low = c.Integer(1), high = c.Integer(2);
  if (low.has_value() && high.has_value() && *low >= *high) {
    return c.Invalid("minval ", *low, " must be less than maxval ", *high);
  }
  RandomShape(c);
}

TENON_OP(kRandomUniformInt) = DefineOp({
    .name = "RandomUniformInt",
    .inputs = "shape: T, minval: Tout, maxval: Tout",
    .outputs = "output: Tout",
    .attrs = "seed: int = 0; seed2: int = 0; Tout: {int32, int64}; T: {int32, int64}",
    .constraints = "rank(shape) == 1; value(shape) >= 0; rank(minval) == 0; rank(maxval) == 0",
    .doc = "Random integers, equally likely in [minval, maxval).",
    .properties = "draws",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<RandomUniformIntShape>,
});

}  // namespace tenon::ops
