// SPDX-License-Identifier: Apache-2.0
// Cumsum and Cumprod: sums and products of all elements up to each one along an axis.
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

consteval tenon_op_definition Cumulative(OpDefinition op) {
  op.inputs = "x: T, axis: Tidx";
  op.outputs = "out: T";
  op.attrs = "exclusive: bool = false; reverse: bool = false; T: numbertype; Tidx: {int32, int64} = int32";
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
    .doc = "The product of all elements up to each one along the axis; exclusive: without itself; reverse: from the end.",
    .gradient = GradientFunction<CumprodGradient>,
});

}  // namespace tenon::ops
