// SPDX-License-Identifier: Apache-2.0
// Random numbers that a seed, or a key and a counter, say altogether: the same each time.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

void SeededShape(ShapeContext& c) {
  const Shape seed = c.WithRank(1, 1);
  c.Merge(seed[0], 2, "the numbers of seed and 2");
  c.SetOutput(0, c.WantedShape(0));
}

void KeyedShape(ShapeContext& c) {
  const Shape key = c.WithRank(1, 1), counter = c.WithRank(2, 1);
  c.WithRank(3, 0);
  c.Merge(key[0], 1, "the numbers of key and 1");
  if (counter[0] >= 0 && counter[0] < 1) c.Invalid("counter must have one number at least");
  c.SetOutput(0, c.WantedShape(0));
}

consteval tenon_op_definition Keyed(OpDefinition op) {
  op.inputs = "shape: Tshape, key: uint64, counter: uint64, alg: int32";
  op.outputs = "output: dtype";
  op.attrs = "dtype: {half, bfloat16, float, double} = float; Tshape: {int32, int64} = int32";
  op.constraints = "rank(shape) == 1; value(shape) >= 0; rank(key) == 1; dim(key, 0) == 1; rank(counter) == 1; rank(alg) == 0";
  op.shape = ShapeFunction<KeyedShape>;
  op.traits = TENON_OP_NO_GRADIENT;
  return DefineOp(op);
}

void KeyCounterShape(ShapeContext& c) {
  const Shape seed = c.WithRank(0, 1);
  c.Merge(seed[0], 2, "the numbers of seed and 2");
  c.SetOutput(0, {1});
  c.SetOutput(1, {2});
}

}  // namespace

TENON_OP(kStatelessRandomUniform) = DefineOp({
    .name = "StatelessRandomUniform",
    .inputs = "shape: T, seed: Tseed",
    .outputs = "output: dtype",
    .attrs = "dtype: {half, bfloat16, float, double} = float; T: {int32, int64} = int32; Tseed: {int32, int64} = int64",
    .constraints = "rank(shape) == 1; value(shape) >= 0; rank(seed) == 1; dim(seed, 0) == 2",
    .doc = "Random numbers, equally likely in [0, 1), that seed determines.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SeededShape>,
});

TENON_OP(kStatelessRandomUniformV2) =
    Keyed({.name = "StatelessRandomUniformV2", .doc = "Random numbers, equally likely in [0, 1), that key and counter determine."});
TENON_OP(kStatelessRandomNormalV2) =
    Keyed({.name = "StatelessRandomNormalV2", .doc = "Random numbers of the normal distribution that key and counter determine."});
TENON_OP(kStatelessTruncatedNormalV2) = Keyed(
    {.name = "StatelessTruncatedNormalV2", .doc = "StatelessRandomNormalV2 without what is more than two deviations from the mean."});

TENON_OP(kStatelessRandomGetKeyCounter) = DefineOp({
    .name = "StatelessRandomGetKeyCounter",
    .inputs = "seed: Tseed",
    .outputs = "key: uint64, counter: uint64",
    .attrs = "Tseed: {int32, int64} = int64",
    .constraints = "rank(seed) == 1; dim(seed, 0) == 2",
    .doc = "The key and the counter of the generator that a seed stands for.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<KeyCounterShape>,
});

static void ShuffleShape(ShapeContext& c) { c.SetOutput(0, c.Input(0)); }

TENON_OP(kRandomShuffle) = DefineOp({
    .name = "RandomShuffle",
    .inputs = "value: T",
    .outputs = "output: T",
    .attrs = "seed: int = 0; seed2: int = 0; T: type",
    .doc = "The rows of value in a random order.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ShuffleShape>,
});

}  // namespace tenon::ops
