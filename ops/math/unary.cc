// SPDX-License-Identifier: Apache-2.0
// Functions of one number, element by element, and their gradient ops.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr std::string_view kReals = "T: {bfloat16, half, float, double}";
constexpr std::string_view kRealsAndComplex = "T: {bfloat16, half, float, double, complex64, complex128}";
constexpr std::string_view kSigned =
    "T: {bfloat16, half, float, double, int8, int16, int32, int64, complex64, complex128}";

consteval tenon_op_definition Unary(OpDefinition op) {
  op.inputs = "x: T";
  op.outputs = op.outputs.empty() ? "y: T" : op.outputs;
  op.shape = ShapeFunction<SameShape>;
  return DefineOp(op);
}

// The ops that carry a gradient, given the function's output y and its gradient dy.
consteval tenon_op_definition UnaryGrad(OpDefinition op) {
  op.inputs = "y: T, dy: T";
  op.outputs = "z: T";
  op.attrs = kRealsAndComplex;
  op.shape = ShapeFunction<EqualShapes>;
  return DefineOp(op);
}

}  // namespace

// ---- Signs and roundings ----

static void NegGradient(GradientContext& g) { g.SetDx(0, g.Neg(g.dy(0))); }
TENON_OP(kNeg) = Unary({
    .name = "Neg",
    .attrs = kSigned,
    .doc = "-x.",
    .properties = "elementwise, exact, keeps_nan, fits_half, computes(neg(x))",
    .gradient = GradientFunction<NegGradient>,
});

static void AbsGradient(GradientContext& g) { g.SetDx(0, g.Mul(g.dy(0), g.Op("Sign", {g.input(0)}))); }
TENON_OP(kAbs) = Unary({
    .name = "Abs",
    .attrs = "T: {bfloat16, half, float, double, int8, int16, int32, int64}",
    .doc = "The absolute value.",
    .properties = "elementwise, exact, keeps_nan, computes(abs(x))",
    .gradient = GradientFunction<AbsGradient>,
});

static void SignGradient(GradientContext& g) { g.SetZero(0); }
TENON_OP(kSign) = Unary({
    .name = "Sign",
    .attrs = kSigned,
    .doc = "-1, 0 or 1; for complex numbers x / |x|, and 0 at 0.",
    .properties = "elementwise, exact, keeps_nan, computes(sign(x))",
    .gradient = GradientFunction<SignGradient>,
});

TENON_OP(kFloor) = Unary({
    .name = "Floor",
    .attrs = kReals,
    .doc = "The largest whole number that is not larger.",
    .properties = "elementwise, exact, keeps_nan, computes(floor(x))",
    .traits = TENON_OP_NO_GRADIENT,
});

TENON_OP(kCeil) = Unary({
    .name = "Ceil",
    .attrs = kReals,
    .doc = "The smallest whole number that is not smaller.",
    .properties = "elementwise, exact, keeps_nan, computes(ceil(x))",
    .traits = TENON_OP_NO_GRADIENT,
});

TENON_OP(kRound) = Unary({
    .name = "Round",
    .attrs = kSigned,
    .doc = "The nearest whole number; of two equally near ones the even one.",
    .properties = "elementwise, exact, keeps_nan, computes(round(x))",
    .traits = TENON_OP_NO_GRADIENT,
});

static void NoGradient(GradientContext&) {}  // said, so that nobody asks the ops that it is made of
static void DecomposeRint(DecomposeContext& d) { d.SetOutput(0, d.Op("Round", {d.input(0)})); }
TENON_OP(kRint) = Unary({
    .name = "Rint",
    .attrs = kReals,
    .doc = "Round, of real numbers alone.",
    .properties = "elementwise, exact, keeps_nan, computes(round(x))",
    .gradient = GradientFunction<NoGradient>,
    .decompose = DecomposeFunction<DecomposeRint>,
});

TENON_OP(kIsNan) = Unary({
    .name = "IsNan",
    .outputs = "y: bool",
    .attrs = kReals,
    .doc = "Whether x is not a number.",
    .properties = "elementwise, exact, computes(is_nan(x))",
});

TENON_OP(kIsInf) = Unary({
    .name = "IsInf",
    .outputs = "y: bool",
    .attrs = kReals,
    .doc = "Whether x is infinite, of either sign.",
    .properties = "elementwise, exact, computes(is_inf(x))",
});

TENON_OP(kIsFinite) = Unary({
    .name = "IsFinite",
    .outputs = "y: bool",
    .attrs = kReals,
    .doc = "Whether x is neither infinite nor NaN.",
    .properties = "elementwise, exact, computes(is_finite(x))",
});

// ---- Exponentials and logarithms ----

static void ExpGradient(GradientContext& g) { g.SetDx(0, g.Mul(g.dy(0), g.Conj(g.output(0)))); }
TENON_OP(kExp) = Unary({
    .name = "Exp",
    .attrs = kRealsAndComplex,
    .doc = "e to the power of x.",
    .properties = "elementwise, curve, keeps_nan, computes(exp(x))",
    .gradient = GradientFunction<ExpGradient>,
});

static void Expm1Gradient(GradientContext& g) { g.SetDx(0, g.Mul(g.dy(0), g.Conj(g.Op("Exp", {g.input(0)})))); }
TENON_OP(kExpm1) = Unary({
    .name = "Expm1",
    .attrs = kRealsAndComplex,
    .doc = "e to the power of x, minus 1, exact for small x.",
    .properties = "elementwise, curve, keeps_nan, computes(expm1(x))",
    .gradient = GradientFunction<Expm1Gradient>,
});

static void LogGradient(GradientContext& g) { g.SetDx(0, g.Div(g.dy(0), g.Conj(g.input(0)))); }
TENON_OP(kLog) = Unary({
    .name = "Log",
    .attrs = kRealsAndComplex,
    .doc = "The natural logarithm.",
    .properties = "elementwise, curve, keeps_nan, computes(log(x))",
    .gradient = GradientFunction<LogGradient>,
});

static void Log1pGradient(GradientContext& g) {
  const Output x = g.Conj(g.input(0));
  g.SetDx(0, g.Div(g.dy(0), g.Add(g.Scalar(1, x), x)));
}
TENON_OP(kLog1p) = Unary({
    .name = "Log1p",
    .attrs = kRealsAndComplex,
    .doc = "The natural logarithm of 1 + x, exact for small x.",
    .properties = "elementwise, curve, keeps_nan, computes(log1p(x))",
    .gradient = GradientFunction<Log1pGradient>,
});

// ---- Powers ----

static void SquareGradient(GradientContext& g) {
  const Output x = g.Conj(g.input(0));
  g.SetDx(0, g.Mul(g.dy(0), g.Mul(g.Scalar(2, x), x)));
}
TENON_OP(kSquare) = Unary({
    .name = "Square",
    .attrs = "T: {bfloat16, half, float, double, int8, int16, int32, int64, uint8, uint16, uint32, uint64, "
             "complex64, complex128}",
    .doc = "x * x.",
    .properties = "elementwise, keeps_nan, computes(square(x))",
    .gradient = GradientFunction<SquareGradient>,
});

static void SqrtGradient(GradientContext& g) { g.SetDx(0, g.Op("SqrtGrad", {g.output(0), g.dy(0)})); }
TENON_OP(kSqrt) = Unary({
    .name = "Sqrt",
    .attrs = kRealsAndComplex,
    .doc = "The square root.",
    .properties = "elementwise, keeps_nan, computes(sqrt(x))",
    .gradient = GradientFunction<SqrtGradient>,
});

static void SqrtGradGradient(GradientContext& g) {
  const Output ratio = g.Div(g.dy(0), g.input(0));
  g.SetDx(0, g.Mul(g.Neg(g.Conj(ratio)), g.output(0)));
  g.SetDx(1, g.Mul(g.Scalar(0.5, ratio), ratio));
}
TENON_OP(kSqrtGrad) = UnaryGrad({
    .name = "SqrtGrad",
    .doc = "The gradient of Sqrt: dy * 0.5 / y, where y is Sqrt's output.",
    .properties = "elementwise, computes(sqrt_grad(y, dy))",
    .gradient = GradientFunction<SqrtGradGradient>,
});

static void RsqrtGradient(GradientContext& g) { g.SetDx(0, g.Op("RsqrtGrad", {g.output(0), g.dy(0)})); }
TENON_OP(kRsqrt) = Unary({
    .name = "Rsqrt",
    .attrs = kRealsAndComplex,
    .doc = "1 / Sqrt(x).",
    .properties = "elementwise, keeps_nan, computes(rsqrt(x))",
    .gradient = GradientFunction<RsqrtGradient>,
});

static void RsqrtGradGradient(GradientContext& g) {
  const Output y = g.Conj(g.input(0)), gg = g.dy(0);
  const Output cubic = g.Mul(g.Mul(g.Conj(gg), g.input(1)), g.Op("Square", {y}));
  g.SetDx(0, g.Mul(g.Scalar(-1.5, gg), cubic));
  g.SetDx(1, g.Op("RsqrtGrad", {y, gg}));
}
TENON_OP(kRsqrtGrad) = UnaryGrad({
    .name = "RsqrtGrad",
    .doc = "The gradient of Rsqrt: dy * -0.5 * y * y * y, where y is Rsqrt's output.",
    .properties = "elementwise, computes(rsqrt_grad(y, dy))",
    .gradient = GradientFunction<RsqrtGradGradient>,
});

static void ReciprocalGradient(GradientContext& g) { g.SetDx(0, g.Op("ReciprocalGrad", {g.output(0), g.dy(0)})); }
TENON_OP(kReciprocal) = Unary({
    .name = "Reciprocal",
    .attrs = kSigned,
    .doc = "1 / x.",
    .properties = "elementwise, keeps_nan, computes(reciprocal(x))",
    .gradient = GradientFunction<ReciprocalGradient>,
});

static void ReciprocalGradGradient(GradientContext& g) {
  const Output y = g.Conj(g.input(0)), gg = g.dy(0);
  g.SetDx(0, g.Mul(g.Scalar(-2, gg), g.Mul(g.Mul(g.Conj(gg), g.input(1)), y)));
  g.SetDx(1, g.Op("ReciprocalGrad", {y, gg}));
}
TENON_OP(kReciprocalGrad) = UnaryGrad({
    .name = "ReciprocalGrad",
    .doc = "The gradient of Reciprocal: -dy * y * y, where y is Reciprocal's output.",
    .properties = "elementwise, computes(reciprocal_grad(y, dy))",
    .gradient = GradientFunction<ReciprocalGradGradient>,
});

// The older names of Reciprocal and its gradient.
static void DecomposeInv(DecomposeContext& d) { d.SetOutput(0, d.Op("Reciprocal", {d.input(0)})); }
TENON_OP(kInv) = Unary({
    .name = "Inv",
    .attrs = kSigned,
    .doc = "1 / x.",
    .properties = "elementwise, keeps_nan, computes(reciprocal(x))",
    .gradient = GradientFunction<ReciprocalGradient>,
    .decompose = DecomposeFunction<DecomposeInv>,
});

static void DecomposeInvGrad(DecomposeContext& d) { d.SetOutput(0, d.Op("ReciprocalGrad", {d.input(0), d.input(1)})); }
TENON_OP(kInvGrad) = UnaryGrad({
    .name = "InvGrad",
    .doc = "The gradient of Inv: -dy * y * y, where y is Inv's output.",
    .properties = "elementwise, computes(reciprocal_grad(y, dy))",
    .gradient = GradientFunction<ReciprocalGradGradient>,
    .decompose = DecomposeFunction<DecomposeInvGrad>,
});

// ---- Waves and curves ----

static void SinGradient(GradientContext& g) { g.SetDx(0, g.Mul(g.dy(0), g.Op("Cos", {g.Conj(g.input(0))}))); }
TENON_OP(kSin) = Unary({
    .name = "Sin",
    .attrs = kRealsAndComplex,
    .doc = "The sine of x in radians.",
    .properties = "elementwise, curve, keeps_nan, computes(sin(x))",
    .gradient = GradientFunction<SinGradient>,
});

static void CosGradient(GradientContext& g) { g.SetDx(0, g.Mul(g.Neg(g.dy(0)), g.Op("Sin", {g.Conj(g.input(0))}))); }
TENON_OP(kCos) = Unary({
    .name = "Cos",
    .attrs = kRealsAndComplex,
    .doc = "The cosine of x in radians.",
    .properties = "elementwise, curve, keeps_nan, computes(cos(x))",
    .gradient = GradientFunction<CosGradient>,
});

static void TanhGradient(GradientContext& g) { g.SetDx(0, g.Op("TanhGrad", {g.Conj(g.output(0)), g.dy(0)})); }
TENON_OP(kTanh) = Unary({
    .name = "Tanh",
    .attrs = kRealsAndComplex,
    .doc = "The hyperbolic tangent.",
    .properties = "elementwise, curve, keeps_nan, fits_half, computes(tanh(x))",
    .gradient = GradientFunction<TanhGradient>,
});

static void TanhGradGradient(GradientContext& g) {
  const Output y = g.Conj(g.input(0)), dy = g.Conj(g.input(1)), gg = g.dy(0);
  g.SetDx(0, g.Mul(g.Scalar(-2, gg), g.Mul(g.Mul(gg, dy), y)));
  g.SetDx(1, g.Op("TanhGrad", {y, gg}));
}
TENON_OP(kTanhGrad) = UnaryGrad({
    .name = "TanhGrad",
    .doc = "The gradient of Tanh: dy * (1 - y * y), where y is Tanh's output.",
    .properties = "elementwise, fits_half, computes(tanh_grad(y, dy))",
    .gradient = GradientFunction<TanhGradGradient>,
});

static void SigmoidGradient(GradientContext& g) { g.SetDx(0, g.Op("SigmoidGrad", {g.Conj(g.output(0)), g.dy(0)})); }
TENON_OP(kSigmoid) = Unary({
    .name = "Sigmoid",
    .attrs = kRealsAndComplex,
    .doc = "1 / (1 + Exp(-x)).",
    .properties = "elementwise, curve, keeps_nan, fits_half, computes(sigmoid(x))",
    .gradient = GradientFunction<SigmoidGradient>,
});

static void SigmoidGradGradient(GradientContext& g) {
  const Output y = g.Conj(g.input(0)), dy = g.Conj(g.input(1)), gg = g.dy(0);
  const Output product = g.Mul(gg, dy);
  g.SetDx(0, g.Sub(product, g.Mul(g.Scalar(2, gg), g.Mul(product, y))));
  g.SetDx(1, g.Op("SigmoidGrad", {y, gg}));
}
TENON_OP(kSigmoidGrad) = UnaryGrad({
    .name = "SigmoidGrad",
    .doc = "The gradient of Sigmoid: dy * y * (1 - y), where y is Sigmoid's output.",
    .properties = "elementwise, fits_half, computes(sigmoid_grad(y, dy))",
    .gradient = GradientFunction<SigmoidGradGradient>,
});

static void ErfGradient(GradientContext& g) {
  const Output x = g.input(0);
  const Output bell = g.Op("Exp", {g.Neg(g.Op("Square", {x}))});
  g.SetDx(0, g.Mul(g.dy(0), g.Mul(g.Scalar(1.1283791670955126, x), bell)));  // 2 / sqrt(pi)
}
TENON_OP(kErf) = Unary({
    .name = "Erf",
    .attrs = kReals,
    .doc = "The error function.",
    .properties = "elementwise, curve, keeps_nan, fits_half, computes(erf(x))",
    .gradient = GradientFunction<ErfGradient>,
});

static void ErfcGradient(GradientContext& g) {
  const Output minus_two_over_root_pi = g.Scalar(-1.1283791670955126, g.dy(0));
  g.SetDx(0, g.Mul(g.Mul(minus_two_over_root_pi, g.dy(0)), g.Op("Exp", {g.Neg(g.Op("Square", {g.input(0)}))})));
}
TENON_OP(kErfc) = Unary({
    .name = "Erfc",
    .attrs = kReals,
    .doc = "1 minus the error function, exact where that is nearly 1.",
    .properties = "elementwise, curve, keeps_nan, computes(erfc(x))",
    .gradient = GradientFunction<ErfcGradient>,
});

}  // namespace tenon::ops
