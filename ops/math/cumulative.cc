// SPDX-License-Identifier: Apache-2.0
// Cumsum, Cumprod and CumulativeLogsumexp: sums and products of all elements up to each one along an axis.
#include <limits>

#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

void CumulativeShape(ShapeContext& c) {
  c.WithRank(1, 0);
  const Shape x = c.Input(0);
  if (x.known_rank()) c.Axis(1, x.rank());
  c.SetOutput(0, x);
}

Output Cumsum(GradientContext& g, Output x, bool reverse) {
  return g.Op("Cumsum", {x, g.input(1)}, {{"exclusive", g.Bool("exclusive")}, {"reverse", reverse}});
}
void CumsumGradient(GradientContext& g) { g.SetDx(0, Cumsum(g, g.dy(0), !g.Bool("reverse"))); }

// TensorFlow's rule: where x is 0 the gradient is 0, though it need not be, and complex numbers are not conjugated.
void CumprodGradient(GradientContext& g) {
  const Output sum = Cumsum(g, g.Mul(g.output(0), g.dy(0)), !g.Bool("reverse"));
  g.SetDx(0, g.Op("DivNoNan", {sum, g.input(0)}));
}

Output CumulativeLogsumexp(GradientContext& g, Output x) {
  return g.Op("CumulativeLogsumexp", {x, g.input(1)},
              {{"exclusive", g.Bool("exclusive")}, {"reverse", !g.Bool("reverse")}});
}
// exp(x) times the sum of dy exp(-out), which is taken in logarithms, apart for each sign.
void LogsumexpGradient(GradientContext& g) {
  const Output x = g.input(0), dy = g.dy(0), zero = g.Scalar(0, dy);
  const Output none = g.Scalar(-std::numeric_limits<double>::infinity(), dy);
  const auto part = [&](Output positive) {
    const Output is_positive = g.Op("Greater", {positive, zero});
    const Output log = g.Select(is_positive, g.Op("Log", {g.Select(is_positive, positive, g.Scalar(1, dy))}), none);
    return g.Op("Exp", {g.Add(CumulativeLogsumexp(g, g.Sub(log, g.output(0))), x)});
  };
  g.SetDx(0, g.Sub(part(dy), part(g.Neg(dy))));
}

consteval tenon_op_definition Cumulative(OpDefinition op) {
  op.inputs = "x: T, axis: Tidx";
  op.outputs = "out: T";
  op.attrs = op.attrs.empty()
                 ? "exclusive: bool = false; reverse: bool = false; T: numbertype; Tidx: {int32, int64} = int32"
                 : op.attrs;
  op.constraints = "rank(axis) == 0; value(axis) >= -rank(x); value(axis) < rank(x)";
  op.shape = ShapeFunction<CumulativeShape>;
  return DefineOp(op);
}

}  // namespace

TENON_OP(kCumsum) = Cumulative({
    .name = "Cumsum",
    .doc = "The sum of all elements up to each one along the axis; exclusive: without itself; reverse: from the end.",
    .gradient = GradientFunction<CumsumGradient>,
});

TENON_OP(kCumprod) = Cumulative({
    .name = "Cumprod",
    .doc =
        "The product of all elements up to each one along the axis; exclusive: without itself; reverse: from the end.",
    .gradient = GradientFunction<CumprodGradient>,
});

TENON_OP(kCumulativeLogsumexp) = Cumulative({
    .name = "CumulativeLogsumexp",
    .attrs = "exclusive: bool = false; reverse: bool = false; T: {bfloat16, half, float, double}; Tidx: {int32, int64} "
             "= int32",
    .doc = "The logarithm of the sum of the exponentials of all elements up to each one along the axis, which never is "
           "too large on the way.",
    .gradient = GradientFunction<LogsumexpGradient>,
});

}  // namespace tenon::ops
