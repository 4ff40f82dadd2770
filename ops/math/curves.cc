// SPDX-License-Identifier: Apache-2.0
// Angles, and the hyperbolic functions: those besides Sin, Cos and Tanh, which are in unary.cc.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

consteval tenon_op_definition Curve(OpDefinition op) {
  op.inputs = "x: T";
  op.outputs = "y: T";
  op.attrs = "T: {bfloat16, half, float, double, complex64, complex128}";
  op.shape = ShapeFunction<SameShape>;
  return DefineOp(op);
}

// 1 - x^2 of the (conjugate) input.
Output OneLessSquare(GradientContext& g) {
  const Output x = g.Conj(g.input(0));
  return g.Sub(g.Scalar(1, x), g.Op("Square", {x}));
}

void TanGradient(GradientContext& g) {
  const Output secant = g.Op("Reciprocal", {g.Op("Cos", {g.Conj(g.input(0))})});
  g.SetDx(0, g.Mul(g.Op("Square", {secant}), g.dy(0)));
}
void AsinGradient(GradientContext& g) {
  g.SetDx(0, g.Mul(g.dy(0), g.Op("Reciprocal", {g.Op("Sqrt", {OneLessSquare(g)})})));
}
void AcosGradient(GradientContext& g) {
  g.SetDx(0, g.Mul(g.Neg(g.dy(0)), g.Op("Reciprocal", {g.Op("Sqrt", {OneLessSquare(g)})})));
}
void AtanGradient(GradientContext& g) {
  const Output x = g.Conj(g.input(0));
  g.SetDx(0, g.Mul(g.dy(0), g.Op("Reciprocal", {g.Add(g.Scalar(1, x), g.Op("Square", {x}))})));
}
void SinhGradient(GradientContext& g) { g.SetDx(0, g.Mul(g.dy(0), g.Op("Cosh", {g.Conj(g.input(0))}))); }
void CoshGradient(GradientContext& g) { g.SetDx(0, g.Mul(g.dy(0), g.Op("Sinh", {g.Conj(g.input(0))}))); }
void AsinhGradient(GradientContext& g) { g.SetDx(0, g.Div(g.dy(0), g.Op("Cosh", {g.Conj(g.output(0))}))); }
void AcoshGradient(GradientContext& g) { g.SetDx(0, g.Div(g.dy(0), g.Op("Sinh", {g.Conj(g.output(0))}))); }
void AtanhGradient(GradientContext& g) { g.SetDx(0, g.Mul(g.dy(0), g.Op("Reciprocal", {OneLessSquare(g)}))); }

}  // namespace

TENON_OP(kTan) = Curve({.name = "Tan",
                        .doc = "The tangent of x in radians.",
                        .properties = "elementwise, curve, keeps_nan, computes(tan(x))",
                        .gradient = GradientFunction<TanGradient>});
TENON_OP(kAsin) = Curve({.name = "Asin",
                         .doc = "The angle in radians whose sine is x.",
                         .properties = "elementwise, curve, keeps_nan, computes(asin(x))",
                         .gradient = GradientFunction<AsinGradient>});
TENON_OP(kAcos) = Curve({.name = "Acos",
                         .doc = "The angle in radians whose cosine is x.",
                         .properties = "elementwise, curve, keeps_nan, computes(acos(x))",
                         .gradient = GradientFunction<AcosGradient>});
TENON_OP(kAtan) = Curve({.name = "Atan",
                         .doc = "The angle in radians whose tangent is x.",
                         .properties = "elementwise, curve, keeps_nan, computes(atan(x))",
                         .gradient = GradientFunction<AtanGradient>});
TENON_OP(kSinh) = Curve({.name = "Sinh",
                         .doc = "The hyperbolic sine.",
                         .properties = "elementwise, curve, keeps_nan, computes(sinh(x))",
                         .gradient = GradientFunction<SinhGradient>});
TENON_OP(kCosh) = Curve({.name = "Cosh",
                         .doc = "The hyperbolic cosine.",
                         .properties = "elementwise, curve, keeps_nan, computes(cosh(x))",
                         .gradient = GradientFunction<CoshGradient>});
TENON_OP(kAsinh) = Curve({.name = "Asinh",
                          .doc = "The number whose hyperbolic sine is x.",
                          .properties = "elementwise, curve, keeps_nan, computes(asinh(x))",
                          .gradient = GradientFunction<AsinhGradient>});
TENON_OP(kAcosh) = Curve({.name = "Acosh",
                          .doc = "The number whose hyperbolic cosine is x.",
                          .properties = "elementwise, curve, keeps_nan, computes(acosh(x))",
                          .gradient = GradientFunction<AcoshGradient>});
TENON_OP(kAtanh) = Curve({.name = "Atanh",
                          .doc = "The number whose hyperbolic tangent is x.",
                          .properties = "elementwise, curve, keeps_nan, computes(atanh(x))",
                          .gradient = GradientFunction<AtanhGradient>});

static void Atan2Gradient(GradientContext& g) {
  const Output y = g.input(0), x = g.input(1);
  const Output part = g.Div(g.dy(0), g.Add(g.Op("Square", {y}), g.Op("Square", {x})));
  g.SetDxUnbroadcast(0, 1, g.Mul(x, part));
  g.SetDxUnbroadcast(1, 0, g.Mul(g.Neg(y), part));
}
TENON_OP(kAtan2) = DefineOp({
    .name = "Atan2",
    .inputs = "y: T, x: T",
    .outputs = "z: T",
    .attrs = "T: {bfloat16, half, float, double}",
    .doc = "The angle in radians of the point (x, y), in [-pi, pi].",
    .properties = "elementwise, broadcasts, curve, computes(atan2(y, x))",
    .shape = ShapeFunction<BroadcastShape>,
    .gradient = GradientFunction<Atan2Gradient>,
});

}  // namespace tenon::ops
