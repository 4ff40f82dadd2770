// SPDX-License-Identifier: Apache-2.0
// Random numbers of distributions whose parameters are tensors.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void MultinomialShape(ShapeContext& c) {
  const Shape logits = c.WithRank(0, 2);
  c.WithRank(1, 0);
  if (c.input_count() > 2) c.Merge(c.WithRank(2, 1)[0], 2, "the numbers of seed and 2");
  const auto samples = c.Integer(1);
  if (samples.has_value() && *samples < 0) return c.Invalid("num_samples is ", *samples);
  c.SetOutput(0, {logits[0], samples.value_or(kUnknown)});
}

TENON_OP(kMultinomial) = DefineOp({
    .name = "Multinomial",
    .inputs = "logits: T, num_samples: int32",
    .outputs = "output: output_dtype",
    .attrs = "seed: int = 0; seed2: int = 0; T: realnumbertype; output_dtype: {int32, int64} = int64",
    .constraints = "rank(logits) == 2; rank(num_samples) == 0; value(num_samples) >= 0",
    .doc = "num_samples classes for each row of logits, the logarithms of how likely each class is; classes whose "
           "logit is not finite do not come.",
    .properties = "draws",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<MultinomialShape>,
});

TENON_OP(kStatelessMultinomial) = DefineOp({
    .name = "StatelessMultinomial",
    .inputs = "logits: T, num_samples: int32, seed: Tseed",
    .outputs = "output: output_dtype",
    .attrs = "T: realnumbertype; Tseed: {int32, int64} = int64; output_dtype: {int32, int64} = int64",
    .constraints =
        "rank(logits) == 2; rank(num_samples) == 0; value(num_samples) >= 0; rank(seed) == 1; dim(seed, 0) == 2",
    .doc = "Multinomial, determined by seed.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<MultinomialShape>,
});

static void BinomialShape(ShapeContext& c) {
  c.Merge(c.WithRank(1, 1)[0], 2, "the numbers of seed and 2");
  c.SetOutput(0, c.WantedShape(0));
}

TENON_OP(kStatelessRandomBinomial) = DefineOp({
    .name = "StatelessRandomBinomial",
    .inputs = "shape: S, seed: Tseed, counts: T, probs: T",
    .outputs = "output: dtype",
    .attrs = "S: {int32, int64}; Tseed: {int32, int64} = int64; T: {half, float, double, int32, int64} = double; "
             "dtype: {half, float, double, int32, int64} = int64",
    .constraints = "rank(shape) == 1; value(shape) >= 0; rank(seed) == 1; dim(seed, 0) == 2",
    .doc = "How many of counts tries succeed, each by the chance probs, determined by seed. shape ends with the shape "
           "to which counts and probs broadcast.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<BinomialShape>,
});

// The wanted shape, and the parameter's behind it.
static void AroundShape(ShapeContext& c) { c.SetOutput(0, Join(c.WantedShape(0), c.Input(1))); }

// Numbers grow with their parameter as the derivative of the inverse distribution says.
static void RandomGammaGradient(GradientContext& g) {
  g.SetNotDifferentiable(0);
  g.SetDx(1,
          g.Unbroadcast(g.Mul(g.dy(0), g.Op("RandomGammaGrad", {g.input(1), g.output(0)})), g.input(1), g.output(0)));
}

TENON_OP(kRandomGamma) = DefineOp({
    .name = "RandomGamma",
    .inputs = "shape: S, alpha: T",
    .outputs = "output: T",
    .attrs = "seed: int = 0; seed2: int = 0; S: {int32, int64}; T: {half, float, double}",
    .constraints = "rank(shape) == 1; value(shape) >= 0",
    .doc = "Random numbers of gamma distributions of the shapes alpha, of shape `shape` for each of them.",
    .properties = "draws",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<AroundShape>,
    .gradient = GradientFunction<RandomGammaGradient>,
});

TENON_OP(kRandomPoissonV2) = DefineOp({
    .name = "RandomPoissonV2",
    .inputs = "shape: S, rate: R",
    .outputs = "output: dtype",
    .attrs = "seed: int = 0; seed2: int = 0; S: {int32, int64}; R: {half, float, double, int32, int64} = double; "
             "dtype: {half, float, double, int32, int64} = int64",
    .constraints = "rank(shape) == 1; value(shape) >= 0",
    .doc = "Random numbers of Poisson distributions of these rates, of shape `shape` for each of them.",
    .properties = "draws",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<AroundShape>,
});

static void ParameterizedShape(ShapeContext& c) {
  for (int i = 1; i < 5; ++i) c.WithRankAtMost(i, 1);
  c.SetOutput(0, c.WantedShape(0));
}

TENON_OP(kParameterizedTruncatedNormal) = DefineOp({
    .name = "ParameterizedTruncatedNormal",
    .inputs = "shape: T, means: dtype, stdevs: dtype, minvals: dtype, maxvals: dtype",
    .outputs = "output: dtype",
    .attrs = "seed: int = 0; seed2: int = 0; dtype: {half, bfloat16, float, double}; T: {int32, int64}",
    .constraints = "rank(shape) == 1; value(shape) >= 0; rank(means) <= 1; rank(stdevs) <= 1; rank(minvals) <= 1; "
                   "rank(maxvals) <= 1",
    .doc = "Random numbers of normal distributions of these means and deviations, without what is not in [minvals, "
           "maxvals]; parameters are one number, or one for each row.",
    .properties = "draws",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ParameterizedShape>,
});

}  // namespace tenon::ops
