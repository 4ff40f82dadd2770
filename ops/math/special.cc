// SPDX-License-Identifier: Apache-2.0
// Special functions: gamma, zeta and beta, integrals that have no shorter form, Bessel's functions.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

consteval tenon_op_definition Function(OpDefinition op) {
  op.inputs = "x: T";
  op.outputs = "y: T";
  op.attrs = "T: {bfloat16, half, float, double}";
  op.shape = ShapeFunction<SameShape>;
  return DefineOp(op);
}

Output Squared(GradientContext& g, Output x) { return g.Op("Square", {x}); }

// dx = dy * slope.
void SetSlope(GradientContext& g, Output slope) { g.SetDx(0, g.Mul(g.dy(0), slope)); }

// ---- Gamma ----

void LgammaGradient(GradientContext& g) { SetSlope(g, g.Op("Digamma", {g.input(0)})); }
void DigammaGradient(GradientContext& g) { SetSlope(g, g.Op("Polygamma", {g.Scalar(1, g.input(0)), g.input(0)})); }

// ---- Of the normal distribution ----

void ErfinvGradient(GradientContext& g) {
  const Output dy = g.dy(0);
  g.SetDx(0,
          g.Mul(g.Mul(dy, g.Scalar(0.886226925452758, dy)), g.Op("Exp", {Squared(g, g.output(0))})));  // sqrt(pi) / 2
}
void NdtriGradient(GradientContext& g) {
  const Output dy = g.dy(0), half = g.Div(Squared(g, g.output(0)), g.Scalar(2, dy));
  g.SetDx(0, g.Mul(g.Mul(dy, g.Scalar(2.5066282746310002, dy)), g.Op("Exp", {half})));  // sqrt(2 pi)
}

// ---- Integrals ----

void DawsnGradient(GradientContext& g) {
  const Output x = g.input(0);
  SetSlope(g, g.Sub(g.Scalar(1, x), g.Mul(g.Mul(g.Scalar(2, x), x), g.output(0))));
}
void ExpintGradient(GradientContext& g) { g.SetDx(0, g.Div(g.Mul(g.dy(0), g.Op("Exp", {g.input(0)})), g.input(0))); }
Output QuarterTurns(GradientContext& g) {
  return g.Mul(g.Scalar(1.5707963267948966, g.input(0)), Squared(g, g.input(0)));
}
void FresnelSinGradient(GradientContext& g) { SetSlope(g, g.Op("Sin", {QuarterTurns(g)})); }
void FresnelCosGradient(GradientContext& g) { SetSlope(g, g.Op("Cos", {QuarterTurns(g)})); }
void SpenceGradient(GradientContext& g) {
  const Output x = g.input(0), one = g.Scalar(1, x);
  const Output slope = g.Div(g.Op("Log", {x}), g.Sub(one, x));
  SetSlope(g, g.Select(g.Op("Equal", {x, one}), g.Scalar(-1, x), slope));
}

// ---- Bessel's functions ----

Output Of(GradientContext& g, std::string_view op) { return g.Op(op, {g.input(0)}); }
Output PerX(GradientContext& g, Output y) { return g.Div(y, g.input(0)); }
// `at_zero` where x is 0 and the slope would be divided by it.
void SetSlopeBut(GradientContext& g, double at_zero, Output slope) {
  const Output x = g.input(0);
  SetSlope(g, g.Select(g.Op("Equal", {x, g.Scalar(0, x)}), g.Scalar(at_zero, x), slope));
}

void I0Gradient(GradientContext& g) { SetSlope(g, Of(g, "BesselI1")); }
void I0eGradient(GradientContext& g) { SetSlope(g, g.Sub(Of(g, "BesselI1e"), g.Mul(Of(g, "Sign"), g.output(0)))); }
void I1Gradient(GradientContext& g) { SetSlopeBut(g, 1, g.Sub(Of(g, "BesselI0"), PerX(g, g.output(0)))); }
void I1eGradient(GradientContext& g) {
  const Output factor = g.Add(Of(g, "Sign"), Of(g, "Reciprocal"));
  SetSlopeBut(g, 0.5, g.Sub(Of(g, "BesselI0e"), g.Mul(g.output(0), factor)));
}
void J0Gradient(GradientContext& g) { SetSlope(g, g.Neg(Of(g, "BesselJ1"))); }
void J1Gradient(GradientContext& g) { SetSlopeBut(g, 0.5, g.Sub(Of(g, "BesselJ0"), PerX(g, g.output(0)))); }
void Y0Gradient(GradientContext& g) { SetSlope(g, g.Neg(Of(g, "BesselY1"))); }
void Y1Gradient(GradientContext& g) { SetSlope(g, g.Sub(Of(g, "BesselY0"), PerX(g, g.output(0)))); }
void K0Gradient(GradientContext& g) { SetSlope(g, g.Neg(Of(g, "BesselK1"))); }
void K0eGradient(GradientContext& g) { SetSlope(g, g.Sub(g.output(0), Of(g, "BesselK1e"))); }
void K1Gradient(GradientContext& g) { SetSlope(g, g.Sub(g.Neg(Of(g, "BesselK0")), PerX(g, g.output(0)))); }
void K1eGradient(GradientContext& g) {
  const Output factor = g.Sub(g.Scalar(1, g.input(0)), Of(g, "Reciprocal"));
  SetSlope(g, g.Sub(g.Mul(g.output(0), factor), Of(g, "BesselK0e")));
}

}  // namespace

TENON_OP(kLgamma) = Function({.name = "Lgamma",
                              .doc = "The logarithm of the absolute value of the gamma function.",
                              .properties = "elementwise, curve, keeps_nan, computes(lgamma(x))",
                              .gradient = GradientFunction<LgammaGradient>});
TENON_OP(kDigamma) = Function({.name = "Digamma",
                               .doc = "The derivative of Lgamma.",
                               .properties = "elementwise, curve, keeps_nan, computes(digamma(x))",
                               .gradient = GradientFunction<DigammaGradient>});
TENON_OP(kErfinv) = Function({.name = "Erfinv",
                              .doc = "The number whose Erf is x.",
                              .properties = "elementwise, curve, keeps_nan, computes(erfinv(x))",
                              .gradient = GradientFunction<ErfinvGradient>});
TENON_OP(kNdtri) = Function({
    .name = "Ndtri",
    .doc = "The number below which a standard normal one is with probability x.",
    .properties = "elementwise, curve, keeps_nan",
    .gradient = GradientFunction<NdtriGradient>,
});
TENON_OP(kDawsn) = Function({.name = "Dawsn",
                             .doc = "Dawson's integral: exp(-x^2) times the integral of exp(t^2) from 0 to x.",
                             .properties = "elementwise, curve",
                             .gradient = GradientFunction<DawsnGradient>});
TENON_OP(kExpint) = Function({.name = "Expint",
                              .doc = "The integral of exp(t) / t up to x, of positive x.",
                              .properties = "elementwise, curve",
                              .gradient = GradientFunction<ExpintGradient>});
TENON_OP(kFresnelSin) = Function({.name = "FresnelSin",
                                  .doc = "The integral of sin(pi t^2 / 2) from 0 to x.",
                                  .properties = "elementwise, curve",
                                  .gradient = GradientFunction<FresnelSinGradient>});
TENON_OP(kFresnelCos) = Function({.name = "FresnelCos",
                                  .doc = "The integral of cos(pi t^2 / 2) from 0 to x.",
                                  .properties = "elementwise, curve",
                                  .gradient = GradientFunction<FresnelCosGradient>});
TENON_OP(kSpence) = Function({.name = "Spence",
                              .doc = "The integral of log(t) / (1 - t) from 1 to x, of x that is not negative.",
                              .properties = "elementwise, curve",
                              .gradient = GradientFunction<SpenceGradient>});
TENON_OP(kBesselI0) = Function({.name = "BesselI0",
                                .doc = "Bessel's modified function of the first kind, of order 0.",
                                .properties = "elementwise, curve",
                                .gradient = GradientFunction<I0Gradient>});
TENON_OP(kBesselI0e) = Function({.name = "BesselI0e",
                                 .doc = "BesselI0(x) * exp(-|x|).",
                                 .properties = "elementwise, curve",
                                 .gradient = GradientFunction<I0eGradient>});
TENON_OP(kBesselI1) = Function({.name = "BesselI1",
                                .doc = "Bessel's modified function of the first kind, of order 1.",
                                .properties = "elementwise, curve",
                                .gradient = GradientFunction<I1Gradient>});
TENON_OP(kBesselI1e) = Function({.name = "BesselI1e",
                                 .doc = "BesselI1(x) * exp(-|x|).",
                                 .properties = "elementwise, curve",
                                 .gradient = GradientFunction<I1eGradient>});
TENON_OP(kBesselJ0) = Function({.name = "BesselJ0",
                                .doc = "Bessel's function of the first kind, of order 0.",
                                .properties = "elementwise, curve",
                                .gradient = GradientFunction<J0Gradient>});
TENON_OP(kBesselJ1) = Function({.name = "BesselJ1",
                                .doc = "Bessel's function of the first kind, of order 1.",
                                .properties = "elementwise, curve",
                                .gradient = GradientFunction<J1Gradient>});
TENON_OP(kBesselY0) = Function({.name = "BesselY0",
                                .doc = "Bessel's function of the second kind, of order 0.",
                                .properties = "elementwise, curve",
                                .gradient = GradientFunction<Y0Gradient>});
TENON_OP(kBesselY1) = Function({.name = "BesselY1",
                                .doc = "Bessel's function of the second kind, of order 1.",
                                .properties = "elementwise, curve",
                                .gradient = GradientFunction<Y1Gradient>});
TENON_OP(kBesselK0) = Function({.name = "BesselK0",
                                .doc = "Bessel's modified function of the second kind, of order 0.",
                                .properties = "elementwise, curve",
                                .gradient = GradientFunction<K0Gradient>});
TENON_OP(kBesselK0e) = Function({.name = "BesselK0e",
                                 .doc = "BesselK0(x) * exp(x).",
                                 .properties = "elementwise, curve",
                                 .gradient = GradientFunction<K0eGradient>});
TENON_OP(kBesselK1) = Function({.name = "BesselK1",
                                .doc = "Bessel's modified function of the second kind, of order 1.",
                                .properties = "elementwise, curve",
                                .gradient = GradientFunction<K1Gradient>});
TENON_OP(kBesselK1e) = Function({.name = "BesselK1e",
                                 .doc = "BesselK1(x) * exp(x).",
                                 .properties = "elementwise, curve",
                                 .gradient = GradientFunction<K1eGradient>});

// ---- Of several numbers ----

namespace {

consteval tenon_op_definition OfTwo(OpDefinition op) {
  op.properties = "elementwise, broadcasts, curve";
  op.outputs = op.outputs.empty() ? "z: T" : op.outputs;
  op.attrs = op.attrs.empty() ? "T: {float, double}" : op.attrs;
  op.shape = ShapeFunction<BroadcastShape>;
  return DefineOp(op);
}

// By the first number there is no gradient, as in TensorFlow.
void PolygammaGradient(GradientContext& g) {
  const Output n = g.input(0);
  g.SetDxUnbroadcast(1, 0, g.Mul(g.Op("Polygamma", {g.Add(n, g.Scalar(1, n)), g.input(1)}), g.dy(0)));
}
void ZetaGradient(GradientContext& g) {
  const Output x = g.input(0);
  const Output slope = g.Mul(g.Neg(x), g.Op("Zeta", {g.Add(x, g.Scalar(1, x)), g.input(1)}));
  g.SetDxUnbroadcast(1, 0, g.Mul(slope, g.dy(0)));
}

// The slopes of Igamma by a and by x; in logarithms, because the gamma function is soon too large.
void SetIgamma(GradientContext& g, Output dy) {
  const Output a = g.input(0), x = g.input(1);
  const Output by_x =
      g.Op("Exp", {g.Sub(g.Add(g.Neg(x), g.Mul(g.Sub(a, g.Scalar(1, a)), g.Op("Log", {x}))), g.Op("Lgamma", {a}))});
  g.SetDxUnbroadcast(0, 1, g.Mul(g.Op("IgammaGradA", {a, x}), dy));
  g.SetDxUnbroadcast(1, 0, g.Mul(by_x, dy));
}
void IgammaGradient(GradientContext& g) { SetIgamma(g, g.dy(0)); }
void IgammacGradient(GradientContext& g) { SetIgamma(g, g.Neg(g.dy(0))); }

}  // namespace

TENON_OP(kPolygamma) = OfTwo({
    .name = "Polygamma",
    .inputs = "a: T, x: T",
    .doc = "The derivative number a, a whole number, of Digamma.",
    .gradient = GradientFunction<PolygammaGradient>,
});
TENON_OP(kZeta) = OfTwo({
    .name = "Zeta",
    .inputs = "x: T, q: T",
    .doc = "Hurwitz's zeta function: the sum of (q + n)^-x over all n from 0 on.",
    .gradient = GradientFunction<ZetaGradient>,
});
TENON_OP(kIgamma) = OfTwo({
    .name = "Igamma",
    .inputs = "a: T, x: T",
    .attrs = "T: {bfloat16, half, float, double}",
    .doc = "The regularized lower incomplete gamma function.",
    .gradient = GradientFunction<IgammaGradient>,
});
TENON_OP(kIgammac) = OfTwo({
    .name = "Igammac",
    .inputs = "a: T, x: T",
    .attrs = "T: {bfloat16, half, float, double}",
    .doc = "The regularized upper incomplete gamma function: 1 - Igamma, exact where that is nearly 1.",
    .gradient = GradientFunction<IgammacGradient>,
});
TENON_OP(kIgammaGradA) = OfTwo({
    .name = "IgammaGradA",
    .inputs = "a: T, x: T",
    .doc = "The derivative of Igamma by a.",
});
TENON_OP(kRandomGammaGrad) = OfTwo({
    .name = "RandomGammaGrad",
    .inputs = "alpha: T, sample: T",
    .outputs = "output: T",
    .doc = "The derivative by alpha of a random number that was drawn from the gamma distribution of that shape.",
});

// Scalars, or of the shape that all others have.
static void BetaincShape(ShapeContext& c) {
  Shape out = Shape::Scalar();
  bool unknown = false;
  for (int i = 0; i < 3; ++i) {
    const Shape shape = c.Input(i);
    unknown |= !shape.known_rank();
    if (shape.known_rank() && shape.rank() > 0)
      out = out.rank() == 0 ? shape : c.Merge(out, shape, "the shapes of a, b and x");
  }
  c.SetOutput(0, unknown && out.rank() == 0 ? Shape() : out);
}
static void BetaincGradient(GradientContext& g) {
  const Output a = g.input(0), b = g.input(1), x = g.input(2), one = g.Scalar(1, a);
  const auto lgamma = [&](Output of) { return g.Op("Lgamma", {of}); };
  const Output log_beta = g.Sub(g.Add(lgamma(a), lgamma(b)), lgamma(g.Add(a, b)));
  const Output logs = g.Add(g.Op("Xlog1py", {g.Sub(b, one), g.Neg(x)}), g.Op("Xlogy", {g.Sub(a, one), x}));
  const Output dx = g.Mul(g.Op("Exp", {g.Sub(logs, log_beta)}), g.dy(0));
  g.SetDx(2, g.Unbroadcast(dx, x, g.output(0)));
}
TENON_OP(kBetainc) = DefineOp({
    .name = "Betainc",
    .inputs = "a: T, b: T, x: T",
    .outputs = "z: T",
    .attrs = "T: {float, double}",
    .doc = "The regularized incomplete beta function; what is no scalar has one shape.",
    .properties = "elementwise, broadcasts, curve",
    .shape = ShapeFunction<BetaincShape>,
    .gradient = GradientFunction<BetaincGradient>,
});

}  // namespace tenon::ops
