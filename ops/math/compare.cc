// SPDX-License-Identifier: Apache-2.0
// Comparisons and logic, element by element.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// `shape` is given beside op, because g++ with -fsanitize=undefined cannot compare a function's address in a constant.
consteval tenon_op_definition Comparison(OpDefinition op,
                                         decltype(OpDefinition::shape) shape = ShapeFunction<BroadcastShape>) {
  op.inputs = "x: T, y: T";
  op.outputs = "z: bool";
  op.attrs = op.attrs.empty() ? "T: realnumbertype" : op.attrs;
  op.traits |= TENON_OP_NO_GRADIENT;
  op.shape = shape;
  return DefineOp(op);
}

// Shapes that do not fit may be an answer (not equal) instead of an error.
void EqualityShape(ShapeContext& c) {
  const Shape x = c.Input(0), y = c.Input(1);
  if (c.Bool("incompatible_shape_error")) return c.SetOutput(0, c.Broadcast(x, y));
  const auto both = ShapeContext::BroadcastOf(x, y);
  if (!both.has_value()) return c.SetOutput(0, Shape::Scalar());
  // An unknown dim fits for certain only where the other is 1 or missing.
  for (int i = 1; i <= std::min(x.rank(), y.rank()); ++i) {
    if ((x[-i] < 0 && y[-i] != 1) || (y[-i] < 0 && x[-i] != 1)) return;
  }
  c.SetOutput(0, *both);
}

}  // namespace

TENON_OP(kEqual) = Comparison({
    .name = "Equal",
    .attrs = "T: type; incompatible_shape_error: bool = true",
    .doc = "Whether x equals y. Without incompatible_shape_error shapes that do not fit give one false.",
    .properties = "exact, computes(equal(x, y))",
    .traits = TENON_OP_COMMUTATIVE,
}, ShapeFunction<EqualityShape>);
TENON_OP(kNotEqual) = Comparison({
    .name = "NotEqual",
    .attrs = "T: type; incompatible_shape_error: bool = true",
    .doc = "Whether x differs from y. Without incompatible_shape_error shapes that do not fit give one true.",
    .properties = "exact, computes(not_equal(x, y))",
    .traits = TENON_OP_COMMUTATIVE,
}, ShapeFunction<EqualityShape>);
TENON_OP(kLess) = Comparison({
    .name = "Less",
    .roles = "less",
    .doc = "Whether x < y.",
    .properties = "elementwise, broadcasts, exact, computes(less(x, y))",
});
TENON_OP(kLessEqual) = Comparison({
    .name = "LessEqual",
    .doc = "Whether x <= y.",
    .properties = "elementwise, broadcasts, exact, computes(less_equal(x, y))",
});
TENON_OP(kGreater) = Comparison({
    .name = "Greater",
    .doc = "Whether x > y.",
    .properties = "elementwise, broadcasts, exact, computes(greater(x, y))",
});
TENON_OP(kGreaterEqual) = Comparison({
    .name = "GreaterEqual",
    .roles = "greater_equal",
    .doc = "Whether x >= y.",
    .properties = "elementwise, broadcasts, exact, computes(greater_equal(x, y))",
});

// AddN, as it does not broadcast.
static void DecomposeApproximateEqual(DecomposeContext& d) {
  const Output distance = d.Op("Abs", {d.Op("AddN", {d.input(0), d.Neg(d.input(1))})});
  d.SetOutput(0, d.Op("Less", {distance, d.Scalar(d.Float("tolerance"), distance)}));
}
TENON_OP(kApproximateEqual) = DefineOp({
    .name = "ApproximateEqual",
    .inputs = "x: T, y: T",
    .outputs = "z: bool",
    .attrs = "T: numbertype; tolerance: float = 1e-05",
    .doc = "Whether x and y, of one shape, lie less than the tolerance apart.",
    .properties = "elementwise",
    .traits = TENON_OP_COMMUTATIVE | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<EqualShapes>,
    .decompose = DecomposeFunction<DecomposeApproximateEqual>,
});

TENON_OP(kLogicalAnd) = DefineOp({
    .name = "LogicalAnd",
    .inputs = "x: bool, y: bool",
    .outputs = "z: bool",
    .roles = "logical_and",
    .doc = "Whether both are true.",
    .properties = "elementwise, broadcasts, exact, computes(logical_and(x, y))",
    .traits = TENON_OP_COMMUTATIVE | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<BroadcastShape>,
});
TENON_OP(kLogicalOr) = DefineOp({
    .name = "LogicalOr",
    .inputs = "x: bool, y: bool",
    .outputs = "z: bool",
    .doc = "Whether one or both are true.",
    .properties = "elementwise, broadcasts, exact, computes(logical_or(x, y))",
    .traits = TENON_OP_COMMUTATIVE | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<BroadcastShape>,
});
TENON_OP(kLogicalNot) = DefineOp({
    .name = "LogicalNot",
    .inputs = "x: bool",
    .outputs = "y: bool",
    .doc = "Whether x is false.",
    .properties = "elementwise, exact, computes(logical_not(x))",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SameShape>,
});

}  // namespace tenon::ops
