// SPDX-License-Identifier: Apache-2.0
// Complex numbers and their parts.
#include "parts.h"

namespace tenon::ops {
using namespace sdk;

static void ConjGradient(GradientContext& g) { g.SetDx(0, g.Conj(g.dy(0))); }
TENON_OP(kConj) = DefineOp({
    .name = "Conj",
    .inputs = "input: T",
    .outputs = "output: T",
    .attrs = "T: {complex64, complex128, variant} = complex64",
    .doc = "The complex conjugate.",
    .properties = "elementwise, exact",
    .shape = ShapeFunction<SameShape>,
    .gradient = GradientFunction<ConjGradient>,
});

namespace {

Output Complex(GradientContext& g, Output real, Output imag) {
  return g.Op("Complex", {real, imag}, {Attribute::Type("Tout", ComplexOf(g.type(real)))});
}
Output Part(GradientContext& g, std::string_view op, Output x) {
  return g.Op(op, {x}, {Attribute::Type("Tout", RealOf(g.type(x)))});
}

void PartShape(ShapeContext& c) {
  CheckParts(c, c.output_type(0), c.input_type(0));
  SameShape(c);
}
void ComplexShape(ShapeContext& c) {
  CheckParts(c, c.input_type(0), c.output_type(0));
  BroadcastShape(c);
}

void ComplexGradient(GradientContext& g) {
  g.SetDxUnbroadcast(0, 1, Part(g, "Real", g.dy(0)));
  g.SetDxUnbroadcast(1, 0, Part(g, "Imag", g.dy(0)));
}
void RealGradient(GradientContext& g) { g.SetDx(0, Complex(g, g.dy(0), g.Scalar(0, g.dy(0)))); }
void ImagGradient(GradientContext& g) { g.SetDx(0, Complex(g, g.Scalar(0, g.dy(0)), g.dy(0))); }
void AngleGradient(GradientContext& g) {
  const Output x = g.input(0), dy = g.dy(0);
  const Output turned = g.Op("Reciprocal", {Complex(g, Part(g, "Imag", x), Part(g, "Real", x))});
  g.SetDx(0, g.Mul(g.Neg(Complex(g, dy, g.Scalar(0, dy))), turned));
}
// The direction of x, 0 where x is 0.
void ComplexAbsGradient(GradientContext& g) {
  const Output dy = g.dy(0), zero = g.Scalar(0, dy);
  g.SetDx(0, g.Op("DivNoNan", {g.Mul(Complex(g, dy, zero), g.input(0)), Complex(g, g.output(0), zero)}));
}

consteval tenon_op_definition PartOf(OpDefinition op) {
  op.inputs = op.inputs.empty() ? "input: T" : op.inputs;
  op.outputs = op.outputs.empty() ? "output: Tout" : op.outputs;
  op.attrs = "T: {complex64, complex128} = complex64; Tout: {float, double} = float";
  op.shape = ShapeFunction<PartShape>;
  return DefineOp(op);
}

}  // namespace

TENON_OP(kComplex) = DefineOp({
    .name = "Complex",
    .inputs = "real: T, imag: T",
    .outputs = "out: Tout",
    .attrs = "T: {float, double} = float; Tout: {complex64, complex128} = complex64",
    .doc = "real + imag * i.",
    .properties = "elementwise, broadcasts, exact",
    .shape = ShapeFunction<ComplexShape>,
    .gradient = GradientFunction<ComplexGradient>,
});
TENON_OP(kReal) = PartOf({.name = "Real",
                          .doc = "The real part.",
                          .properties = "elementwise, exact",
                          .gradient = GradientFunction<RealGradient>});
TENON_OP(kImag) = PartOf({.name = "Imag",
                          .doc = "The imaginary part.",
                          .properties = "elementwise, exact",
                          .gradient = GradientFunction<ImagGradient>});
TENON_OP(kAngle) = PartOf({.name = "Angle",
                           .doc = "The angle in radians, in [-pi, pi].",
                           .properties = "elementwise",
                           .gradient = GradientFunction<AngleGradient>});
TENON_OP(kComplexAbs) = PartOf({
    .name = "ComplexAbs",
    .inputs = "x: T",
    .outputs = "y: Tout",
    .doc = "The distance from 0.",
    .properties = "elementwise",
    .gradient = GradientFunction<ComplexAbsGradient>,
});

}  // namespace tenon::ops
