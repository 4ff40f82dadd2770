// SPDX-License-Identifier: Apache-2.0
// The batch normalisation of old graphs, and its gradient: plain arithmetic, with a mean and a variance that are given.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

void NormShape(ShapeContext& c) {
  Shape t = c.WithRank(0, 4);
  int64_t channels = t[3];
  for (int i = 1; i < 5; ++i) channels = c.Merge(channels, c.WithRank(i, 1)[0], "the channels of t and of its vectors");
  t.Set(3, channels);
  c.SetOutput(0, t);
}
void NormGradShape(ShapeContext& c) {
  Shape t = c.Merge(c.WithRank(0, 4), c.WithRank(4, 4), "the shapes of t and backprop");
  int64_t channels = t[3];
  for (int i = 1; i < 4; ++i) channels = c.Merge(channels, c.WithRank(i, 1)[0], "the channels of t and of its vectors");
  t.Set(3, channels);
  c.SetOutput(0, t);
  for (int i = 1; i < 5; ++i) c.SetOutput(i, {channels});
}

// 1 / sqrt(v + variance_epsilon).
Output PerDeviation(DecomposeContext& d, Output v) {
  return d.Op("Rsqrt", {d.Add(v, d.Scalar(d.Float("variance_epsilon"), v))});
}

void DecomposeNorm(DecomposeContext& d) {
  Output factor = PerDeviation(d, d.input(2));
  if (d.Bool("scale_after_normalization")) factor = d.Mul(factor, d.input(4));
  d.SetOutput(0, d.Add(d.Mul(d.Sub(d.input(0), d.input(1)), factor), d.input(3)));
}

void DecomposeNormGrad(DecomposeContext& d) {
  const Output t = d.input(0), m = d.input(1), v = d.input(2), gamma = d.input(3), backprop = d.input(4);
  const bool scaled = d.Bool("scale_after_normalization");
  const auto per_channel = [&](Output x) { return d.Sum(x, d.Vector({0, 1, 2})); };
  const Output deviation = PerDeviation(d, v), factor = scaled ? d.Mul(deviation, gamma) : deviation;
  const Output offset = per_channel(backprop), along = per_channel(d.Mul(backprop, d.Sub(t, m)));
  d.SetOutput(0, d.Mul(backprop, factor));
  d.SetOutput(1, d.Neg(d.Mul(offset, factor)));
  // The derivative of the factor by v is -1/2 of its third power.
  d.SetOutput(2, d.Mul(d.Mul(along, factor), d.Mul(d.Scalar(-0.5, v), d.Op("Square", {deviation}))));
  d.SetOutput(3, offset);
  d.SetOutput(4, scaled ? d.Mul(along, deviation) : d.ZerosLike(gamma));
}

void NormGradient(GradientContext& g) {
  const int64_t node =
      g.Node("BatchNormWithGlobalNormalizationGrad", {g.input(0), g.input(1), g.input(2), g.input(4), g.dy(0)},
             {{"variance_epsilon", g.Float("variance_epsilon")},
              {"scale_after_normalization", g.Bool("scale_after_normalization")}});
  for (int32_t i = 0; i < 5; ++i) g.SetDx(i, {node, i, 0});
}

constexpr std::string_view kNormAttrs = "T: numbertype; variance_epsilon: float; scale_after_normalization: bool";
constexpr std::string_view kDeprecation = "Use tf.nn.batch_normalization()";

}  // namespace

TENON_OP(kBatchNormWithGlobalNormalization) = DefineOp({
    .name = "BatchNormWithGlobalNormalization",
    .inputs = "t: T, m: T, v: T, beta: T, gamma: T",
    .outputs = "result: T",
    .attrs = kNormAttrs,
    .constraints = "rank(t) == 4; rank(m) == 1; rank(v) == 1; rank(beta) == 1; rank(gamma) == 1",
    .doc = "t with the mean m and the variance v of each channel taken out, times gamma if scale_after_normalization, "
           "plus beta.",
    .shape = ShapeFunction<NormShape>,
    .gradient = GradientFunction<NormGradient>,
    .decompose = DecomposeFunction<DecomposeNorm>,
    .deprecated_at = 9,
    .deprecation = kDeprecation,
});
TENON_OP(kBatchNormWithGlobalNormalizationGrad) = DefineOp({
    .name = "BatchNormWithGlobalNormalizationGrad",
    .inputs = "t: T, m: T, v: T, gamma: T, backprop: T",
    .outputs = "dx: T, dm: T, dv: T, db: T, dg: T",
    .attrs = kNormAttrs,
    .constraints = "rank(t) == 4; rank(backprop) == 4; rank(m) == 1; rank(v) == 1; rank(gamma) == 1",
    .doc = "The gradients of BatchNormWithGlobalNormalization with respect to all its inputs.",
    .shape = ShapeFunction<NormGradShape>,
    .decompose = DecomposeFunction<DecomposeNormGrad>,
    .deprecated_at = 9,
    .deprecation = kDeprecation,
});

}  // namespace tenon::ops
