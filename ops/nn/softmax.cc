// SPDX-License-Identifier: Apache-2.0
// Softmax, LogSoftmax, and the cross-entropies on logits.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void SoftmaxShape(ShapeContext& c) { c.SetOutput(0, c.WithRankAtLeast(0, 1)); }

static Output SumOfLastDim(GradientContext& g, Output x) { return g.Sum(x, g.Vector({-1}), true); }

// (g - sum(g * y)) * y.
static Output ThroughSoftmax(GradientContext& g, Output gradient, Output softmax) {
  return g.Mul(g.Sub(gradient, SumOfLastDim(g, g.Mul(gradient, softmax))), softmax);
}

static void SoftmaxGradient(GradientContext& g) { g.SetDx(0, ThroughSoftmax(g, g.dy(0), g.output(0))); }

TENON_OP(kSoftmax) = DefineOp({
    .name = "Softmax",
    .inputs = "logits: T",
    .outputs = "softmax: T",
    .attrs = "T: {half, bfloat16, float, double}",
    .constraints = "rank(logits) >= 1",
    .doc = "Exp(logits) divided by its sum along the last dim.",
    .properties = "normalizes(logits)",
    .shape = ShapeFunction<SoftmaxShape>,
    .gradient = GradientFunction<SoftmaxGradient>,
});

static void LogSoftmaxGradient(GradientContext& g) {
  const Output dy = g.dy(0);
  g.SetDx(0, g.Sub(dy, g.Mul(SumOfLastDim(g, dy), g.Op("Exp", {g.output(0)}))));
}

TENON_OP(kLogSoftmax) = DefineOp({
    .name = "LogSoftmax",
    .inputs = "logits: T",
    .outputs = "logsoftmax: T",
    .attrs = "T: {half, bfloat16, float, double}",
    .constraints = "rank(logits) >= 1",
    .doc = "The logarithm of Softmax along the last dim.",
    .properties = "normalizes(logits)",
    .shape = ShapeFunction<SoftmaxShape>,
    .gradient = GradientFunction<LogSoftmaxGradient>,
});

// The second output is the gradient of the loss, which the first derivative only scales. It has a
// gradient of its own: softmax - labels.
static Output LogitsGradient(GradientContext& g) {
  Output dx = g.Mul(g.ExpandDims(g.dy(0), -1), g.output(1));
  if (g.has_dy(1)) dx = g.Add(dx, ThroughSoftmax(g, g.dy(1), g.Op("Softmax", {g.input(0)})));
  return dx;
}

static void CrossEntropyShape(ShapeContext& c) {
  const auto matrix = [&](int index) { return c.Input(index).known_rank() ? c.Input(index) : Shape::OfRank(2); };
  const Shape both = c.Broadcast(matrix(0), matrix(1));
  if (both.known_rank() && both.rank() != 2) {
    return c.Invalid("logits and labels must be matrices; together they are ", both);
  }
  c.SetOutput(0, {both[0]});
  c.SetOutput(1, both);
}

static void CrossEntropyGradient(GradientContext& g) {
  const Output log_softmax = g.Op("LogSoftmax", {g.input(0)});
  g.SetDx(0, g.Unbroadcast(LogitsGradient(g), g.input(0), g.output(1)));
  Output labels = g.Mul(g.ExpandDims(g.dy(0), -1), g.Neg(log_softmax));
  if (g.has_dy(1)) labels = g.Sub(labels, g.dy(1));
  g.SetDx(1, g.Unbroadcast(labels, g.input(1), g.output(1)));
}

TENON_OP(kSoftmaxCrossEntropyWithLogits) = DefineOp({
    .name = "SoftmaxCrossEntropyWithLogits",
    .inputs = "features: T, labels: T",
    .outputs = "loss: T, backprop: T",
    .attrs = "T: {half, bfloat16, float, double}",
    .doc = "The cross-entropy of each row's softmax with a distribution, and its gradient (softmax - labels).",
    .shape = ShapeFunction<CrossEntropyShape>,
    .gradient = GradientFunction<CrossEntropyGradient>,
});

static void SparseCrossEntropyShape(ShapeContext& c) {
  Shape logits = c.WithRank(0, 2);
  const Shape labels = c.WithRank(1, 1);
  logits.Set(0, c.Merge(logits[0], labels[0], "the rows of logits and the number of labels"));
  c.SetOutput(0, {logits[0]});
  c.SetOutput(1, logits);
}

static void SparseCrossEntropyGradient(GradientContext& g) { g.SetDx(0, LogitsGradient(g)); }

TENON_OP(kSparseSoftmaxCrossEntropyWithLogits) = DefineOp({
    .name = "SparseSoftmaxCrossEntropyWithLogits",
    .inputs = "features: T, labels: Tlabels",
    .outputs = "loss: T, backprop: T",
    .attrs = "T: {half, bfloat16, float, double}; Tlabels: {int32, int64} = int64",
    .constraints = "rank(features) == 2; rank(labels) == 1; dim(labels, 0) == dim(features, 0); "
                   "element(labels) >= 0; element(labels) < dim(features, 1)",
    .doc = "The cross-entropy of each row's softmax with one class, and its gradient.",
    .shape = ShapeFunction<SparseCrossEntropyShape>,
    .gradient = GradientFunction<SparseCrossEntropyGradient>,
});

}  // namespace tenon::ops
