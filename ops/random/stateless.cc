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
  op.constraints =
      "rank(shape) == 1; value(shape) >= 0; rank(key) == 1; dim(key, 0) == 1; rank(counter) == 1; rank(alg) == 0";
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

static consteval tenon_op_definition Seeded(OpDefinition op) {
  op.inputs = "shape: T, seed: Tseed";
  op.outputs = "output: dtype";
  if (op.attrs.empty())
    op.attrs =
        "dtype: {half, bfloat16, float, double} = float; T: {int32, int64} = int32; Tseed: {int32, int64} = int64";
  op.constraints = "rank(shape) == 1; value(shape) >= 0; rank(seed) == 1; dim(seed, 0) == 2";
  op.traits = TENON_OP_NO_GRADIENT;
  op.shape = ShapeFunction<SeededShape>;
  return DefineOp(op);
}

TENON_OP(kStatelessRandomUniform) = Seeded({.name = "StatelessRandomUniform",
                                            .doc = "Random numbers, equally likely in [0, 1), that seed determines."});
TENON_OP(kStatelessRandomNormal) =
    Seeded({.name = "StatelessRandomNormal",
            .doc = "Random numbers of the normal distribution with mean 0 and deviation 1 that seed determines."});
TENON_OP(kStatelessTruncatedNormal) =
    Seeded({.name = "StatelessTruncatedNormal",
            .doc = "StatelessRandomNormal without what is more than two deviations from the mean."});
TENON_OP(kStatelessRandomUniformFullInt) = Seeded({
    .name = "StatelessRandomUniformFullInt",
    .attrs = "dtype: {int32, int64, uint32, uint64} = uint64; T: {int32, int64} = int32; Tseed: {int32, int64, uint32, "
             "uint64} = int64",
    .doc = "Random integers, all of the type equally likely, that seed determines.",
});

// minval and maxval are the inputs `low` and the next one.
static void CheckBounds(ShapeContext& c, int low) {
  c.WithRank(low, 0);
  c.WithRank(low + 1, 0);
  const auto least = c.Integer(low), most = c.Integer(low + 1);
  if (least.has_value() && most.has_value() && *least >= *most)
    c.Invalid("Need minval < maxval, got ", *least, " >= ", *most);
}

static void SeededBetweenShape(ShapeContext& c) {
  CheckBounds(c, 2);
  SeededShape(c);
}

TENON_OP(kStatelessRandomUniformInt) = DefineOp({
    .name = "StatelessRandomUniformInt",
    .inputs = "shape: T, seed: Tseed, minval: dtype, maxval: dtype",
    .outputs = "output: dtype",
    .attrs = "dtype: {int32, int64}; T: {int32, int64}; Tseed: {int32, int64} = int64",
    .constraints =
        "rank(shape) == 1; value(shape) >= 0; rank(seed) == 1; dim(seed, 0) == 2; rank(minval) == 0; rank(maxval) == 0",
    .doc = "Random integers, equally likely in [minval, maxval), that seed determines.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SeededBetweenShape>,
});

static void KeyedBetweenShape(ShapeContext& c) {
  c.WithRank(4, 0);
  c.WithRank(5, 0);
  KeyedShape(c);
}

TENON_OP(kStatelessRandomUniformIntV2) = DefineOp({
    .name = "StatelessRandomUniformIntV2",
    .inputs = "shape: Tshape, key: uint64, counter: uint64, alg: int32, minval: dtype, maxval: dtype",
    .outputs = "output: dtype",
    .attrs = "dtype: {int32, int64, uint32, uint64}; Tshape: {int32, int64} = int32",
    .constraints = "rank(shape) == 1; value(shape) >= 0; rank(key) == 1; dim(key, 0) == 1; rank(counter) == 1; "
                   "rank(alg) == 0; rank(minval) == 0; rank(maxval) == 0",
    .doc = "Random integers, equally likely in [minval, maxval), that key and counter determine.",
    .shape = ShapeFunction<KeyedBetweenShape>,
});

TENON_OP(kStatelessRandomUniformFullIntV2) = DefineOp({
    .name = "StatelessRandomUniformFullIntV2",
    .inputs = "shape: Tshape, key: uint64, counter: uint64, alg: int32",
    .outputs = "output: dtype",
    .attrs = "dtype: {int32, int64, uint32, uint64} = uint64; Tshape: {int32, int64} = int32",
    .constraints =
        "rank(shape) == 1; value(shape) >= 0; rank(key) == 1; dim(key, 0) == 1; rank(counter) == 1; rank(alg) == 0",
    .doc = "Random integers, all of the type equally likely, that key and counter determine.",
    .shape = ShapeFunction<KeyedShape>,
});

TENON_OP(kStatelessRandomUniformV2) =
    Keyed({.name = "StatelessRandomUniformV2",
           .doc = "Random numbers, equally likely in [0, 1), that key and counter determine."});
TENON_OP(kStatelessRandomNormalV2) =
    Keyed({.name = "StatelessRandomNormalV2",
           .doc = "Random numbers of the normal distribution that key and counter determine."});
TENON_OP(kStatelessTruncatedNormalV2) =
    Keyed({.name = "StatelessTruncatedNormalV2",
           .doc = "StatelessRandomNormalV2 without what is more than two deviations from the mean."});

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

static void KeyCounterAlgShape(ShapeContext& c) {
  KeyCounterShape(c);
  c.SetOutput(2, Shape::Scalar());
}

TENON_OP(kStatelessRandomGetKeyCounterAlg) = DefineOp({
    .name = "StatelessRandomGetKeyCounterAlg",
    .inputs = "seed: Tseed",
    .outputs = "key: uint64, counter: uint64, alg: int32",
    .attrs = "Tseed: {int32, int64} = int64",
    .constraints = "rank(seed) == 1; dim(seed, 0) == 2",
    .doc = "The key and the counter of the generator that a seed stands for, and the algorithm's number: 1, Philox.",
    .shape = ShapeFunction<KeyCounterAlgShape>,
});

TENON_OP(kStatelessRandomGetAlg) = DefineOp({
    .name = "StatelessRandomGetAlg",
    .outputs = "alg: int32",
    .doc = "The number of the device's own algorithm: 1, Philox.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScalarShape>,
});

static void ShuffleShape(ShapeContext& c) { c.SetOutput(0, c.Input(0)); }

TENON_OP(kRandomShuffle) = DefineOp({
    .name = "RandomShuffle",
    .inputs = "value: T",
    .outputs = "output: T",
    .attrs = "seed: int = 0; seed2: int = 0; T: type",
    .doc = "The rows of value in a random order.",
    .properties = "draws",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ShuffleShape>,
});

static void KeyedShuffleShape(ShapeContext& c) {
  c.WithRank(1, 1);
  c.WithRank(2, 1);
  c.WithRank(3, 0);
  c.SetOutput(0, c.Input(0));
}

TENON_OP(kStatelessShuffle) = DefineOp({
    .name = "StatelessShuffle",
    .inputs = "value: T, key: uint64, counter: uint64, alg: int32",
    .outputs = "output: T",
    .attrs = "T: type",
    .constraints = "rank(key) == 1; rank(counter) == 1; rank(alg) == 0",
    .doc = "The rows of value in an order that key and counter determine.",
    .shape = ShapeFunction<KeyedShuffleShape>,
});

}  // namespace tenon::ops
