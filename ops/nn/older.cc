// SPDX-License-Identifier: Apache-2.0
// First versions of ops, which are the later ones: BiasAddV1 and InTopK.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void BiasAddV1Shape(ShapeContext& c) {
  Shape value = c.WithRankAtLeast(0, 2);
  const Shape bias = c.WithRank(1, 1);
  if (value.known_rank()) value.Set(-1, c.Merge(value[-1], bias[0], "the channels of value and of bias"));
  c.SetOutput(0, value);
}
static void BiasAddV1Gradient(GradientContext& g) {
  g.PassOn(0, 0);
  g.SetDx(1, g.Op("BiasAddGrad", {g.dy(0)}));
}
static void DecomposeBiasAdd(DecomposeContext& d) { d.SetOutput(0, d.Op("BiasAdd", {d.input(0), d.input(1)})); }

TENON_OP(kBiasAddV1) = DefineOp({
    .name = "BiasAddV1",
    .inputs = "value: T, bias: T",
    .outputs = "output: T",
    .attrs = "T: numbertype",
    .constraints = "rank(value) >= 2; rank(bias) == 1",
    .doc = "value with bias added along its last dim.",
    .properties = "elementwise(value)",
    .shape = ShapeFunction<BiasAddV1Shape>,
    .gradient = GradientFunction<BiasAddV1Gradient>,
    .decompose = DecomposeFunction<DecomposeBiasAdd>,
});

static void OlderInTopKShape(ShapeContext& c) {
  const Shape predictions = c.WithRank(0, 2), targets = c.WithRank(1, 1);
  c.SetOutput(0, {c.Merge(predictions[0], targets[0], "the rows of predictions and the number of targets")});
}
static void DecomposeInTopK(DecomposeContext& d) {
  const uint32_t dtype = d.type(d.input(1));
  const int64_t most = dtype == TENON_DT_INT32 ? std::numeric_limits<int32_t>::max() : int64_t{1} << 52;
  d.SetOutput(0, d.Op("InTopKV2", {d.input(0), d.input(1), d.Number(std::clamp(d.Int("k"), -most, most), dtype)}));
}

TENON_OP(kInTopK) = DefineOp({
    .name = "InTopK",
    .inputs = "predictions: float, targets: T",
    .outputs = "precision: bool",
    .attrs = "k: int; T: {int32, int64} = int32",
    .constraints = "rank(predictions) == 2; rank(targets) == 1; dim(predictions, 0) == dim(targets, 0)",
    .doc = "Whether each target is among the k largest predictions of its row; ties with the k-th count.",
    .shape = ShapeFunction<OlderInTopKShape>,
    .decompose = DecomposeFunction<DecomposeInTopK>,
});

}  // namespace tenon::ops
