// SPDX-License-Identifier: Apache-2.0
// Select, SelectV2, Where: choices by truth.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void SelectShape(ShapeContext& c) {
  const Shape condition = c.Input(0);
  const Shape data = c.Merge(c.Input(1), c.Input(2), "the shapes of t and e");
  if (condition.known_rank() && data.known_rank()) {
    if (condition.rank() == 1 && data.rank() > 1) {
      c.Merge(condition[0], data[0], "the length of condition and the rows of t");
    } else if (condition.rank() != 0) {
      c.Merge(condition, data, "the shapes of condition and t");
    }
  } else if (condition.rank() > 1) {
    return c.SetOutput(0, condition);
  }
  c.SetOutput(0, data);
}

static void SelectGradient(GradientContext& g) {
  const Output condition = g.input(0), dy = g.dy(0);
  const Output zeros = g.ZerosLike(dy);
  g.SetDx(1, g.Op("Select", {condition, dy, zeros}));
  g.SetDx(2, g.Op("Select", {condition, zeros, dy}));
}

TENON_OP(kSelect) = DefineOp({
    .name = "Select",
    .inputs = "condition: bool, t: T, e: T",
    .outputs = "output: T",
    .attrs = "T: type",
    .constraints = "rank(t) == rank(e)",
    .doc = "t where condition holds, else e. A vector condition chooses rows, a scalar all.",
    .properties = "elementwise(t, e), exact, computes(select(condition, t, e))",
    .shape = ShapeFunction<SelectShape>,
    .gradient = GradientFunction<SelectGradient>,
});

static void SelectV2Shape(ShapeContext& c) {
  c.SetOutput(0, c.Broadcast(c.Input(0), c.Broadcast(c.Input(1), c.Input(2))));
}

static void SelectV2Gradient(GradientContext& g) {
  const Output dy = g.dy(0), zero = g.Scalar(0, dy);
  g.SetDx(1, g.Unbroadcast(g.Select(g.input(0), dy, zero), g.input(1), g.output(0)));
  g.SetDx(2, g.Unbroadcast(g.Select(g.input(0), zero, dy), g.input(2), g.output(0)));
}

TENON_OP(kSelectV2) = DefineOp({
    .name = "SelectV2",
    .inputs = "condition: bool, t: T, e: T",
    .outputs = "output: T",
    .attrs = "T: type",
    .doc = "t where condition holds, else e; all three broadcast against each other.",
    .properties = "elementwise, broadcasts, exact, fits_half, computes(select(condition, t, e))",
    .shape = ShapeFunction<SelectV2Shape>,
    .gradient = GradientFunction<SelectV2Gradient>,
});

static void WhereShape(ShapeContext& c) {
  const Shape input = c.Input(0);
  c.SetOutput(0, {kUnknown, input.known_rank() ? input.rank() : kUnknown});
}

TENON_OP(kWhere) = DefineOp({
    .name = "Where",
    .inputs = "input: T",
    .outputs = "index: int64",
    .attrs = "T: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, bfloat16, "
             "qint16, quint16, uint16, complex128, half, uint32, uint64, bool} = bool",
    .doc = "The coordinates of the elements that are not zero, in row-major order, one row each.",
    .shape = ShapeFunction<WhereShape>,
});

}  // namespace tenon::ops
