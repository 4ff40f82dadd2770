// SPDX-License-Identifier: Apache-2.0
// L2Loss and InTopKV2.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void L2LossGradient(GradientContext& g) { g.SetDx(0, g.Mul(g.input(0), g.dy(0))); }

TENON_OP(kL2Loss) = DefineOp({
    .name = "L2Loss",
    .inputs = "t: T",
    .outputs = "output: T",
    .attrs = "T: {half, bfloat16, float, double}",
    .doc = "Half of the sum of the squares.",
    .properties = "reduces(t)",
    .shape = ShapeFunction<ScalarShape>,
    .gradient = GradientFunction<L2LossGradient>,
});

static void InTopKShape(ShapeContext& c) {
  const Shape predictions = c.WithRank(0, 2), targets = c.WithRank(1, 1);
  c.WithRank(2, 0);
  c.SetOutput(0, {c.Merge(predictions[0], targets[0], "the rows of predictions and the number of targets")});
}

TENON_OP(kInTopKV2) = DefineOp({
    .name = "InTopKV2",
    .inputs = "predictions: float, targets: T, k: T",
    .outputs = "precision: bool",
    .attrs = "T: {int32, int64} = int32",
    .constraints = "rank(predictions) == 2; rank(targets) == 1; dim(predictions, 0) == dim(targets, 0); rank(k) == 0",
    .doc = "Whether each target is among the k largest predictions of its row; ties with the k-th count.",
    .shape = ShapeFunction<InTopKShape>,
});

}  // namespace tenon::ops
