// SPDX-License-Identifier: Apache-2.0
// Arithmetic on two tensors, element by element, which broadcast against each other.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr std::string_view kNumbers =
    "T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, uint32, uint64, int64, complex64, "
    "complex128}";

consteval tenon_op_definition Binary(OpDefinition op) {
  op.inputs = "x: T, y: T";
  op.outputs = "z: T";
  if (op.shape == nullptr) op.shape = ShapeFunction<BroadcastShape>;
  return DefineOp(op);
}

// Of sizes: combine(c, x, y) of two, of which none may be negative; unknown where there is none.
template <int64_t (*combine)(ShapeContext&, int64_t, int64_t)>
void SizesShape(ShapeContext& c) {
  BroadcastShape(c);
  const auto x = c.Elements(0), y = x.has_value() ? c.Elements(1) : std::nullopt;
  if (!y.has_value() || (x->size() != y->size() && x->size() != 1 && y->size() != 1)) return;
  std::vector<int64_t> sizes;
  for (size_t i = 0, count = x->size() == 1 ? y->size() : x->size(); i < count; ++i)
    sizes.push_back(combine(c, (*x)[x->size() == 1 ? 0 : i], (*y)[y->size() == 1 ? 0 : i]));
  c.SetElements(0, sizes);
}

int64_t SumOfSizes(ShapeContext& c, int64_t x, int64_t y) {
  int64_t sum = 0;
  if (x < 0 || y < 0) return c.Add(x, y);
  return __builtin_add_overflow(x, y, &sum) ? kUnknown : sum;
}
int64_t ProductOfSizes(ShapeContext& c, int64_t x, int64_t y) { return c.Count({x, y}); }
int64_t QuotientOfSizes(ShapeContext& c, int64_t x, int64_t y) { return x >= 0 && y > 0 ? x / y : c.Divide(x, y); }

// Each input's gradient, given in the broadcast shape.
void SetBoth(GradientContext& g, Output dx, Output dy) {
  g.SetDxUnbroadcast(0, 1, dx);
  g.SetDxUnbroadcast(1, 0, dy);
}

}  // namespace

static void AddGradient(GradientContext& g) { SetBoth(g, g.dy(0), g.dy(0)); }
TENON_OP(kAdd) = Binary({
    .name = "Add",
    .attrs = "T: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128, string}",
    .doc = "x + y; strings are put one after the other.",
    .properties = "elementwise, broadcasts, keeps_nan, fits_half, computes(add(x, y))",
    .gradient = GradientFunction<AddGradient>,
});
TENON_OP(kAddV2) = Binary({
    .name = "AddV2",
    .attrs = "T: {bfloat16, half, float, double, uint8, uint16, uint32, uint64, int8, int16, int32, int64, "
             "complex64, complex128}",
    .roles = "add",
    .doc = "x + y.",
    .properties = "elementwise, broadcasts, keeps_nan, fits_half, computes(add(x, y))",
    .traits = TENON_OP_COMMUTATIVE | TENON_OP_AGGREGATE,
    .shape = ShapeFunction<SizesShape<SumOfSizes>>,
    .gradient = GradientFunction<AddGradient>,
});

static void SubGradient(GradientContext& g) {
  g.SetDxUnbroadcast(0, 1, g.dy(0));
  g.SetDx(1, g.Neg(g.Unbroadcast(g.dy(0), g.input(1), g.input(0))));
}
TENON_OP(kSub) = Binary({
    .name = "Sub",
    .attrs = "T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, int64, complex64, complex128, "
             "uint32, uint64}",
    .roles = "subtract",
    .doc = "x - y.",
    .properties = "elementwise, broadcasts, keeps_nan, fits_half, computes(sub(x, y))",
    .gradient = GradientFunction<SubGradient>,
});

static void MulGradient(GradientContext& g) {
  SetBoth(g, g.Mul(g.dy(0), g.Conj(g.input(1))), g.Mul(g.Conj(g.input(0)), g.dy(0)));
}
TENON_OP(kMul) = Binary({
    .name = "Mul",
    .attrs = kNumbers,
    .doc = "x * y.",
    .properties = "elementwise, broadcasts, keeps_nan, fits_half, computes(mul(x, y))",
    .traits = TENON_OP_COMMUTATIVE,
    .shape = ShapeFunction<SizesShape<ProductOfSizes>>,
    .gradient = GradientFunction<MulGradient>,
});

static void DivGradient(GradientContext& g) {
  const Output x = g.Conj(g.input(0)), y = g.Conj(g.input(1)), dz = g.dy(0);
  SetBoth(g, g.Div(dz, y), g.Mul(dz, g.Div(g.Div(g.Neg(x), y), y)));
}
TENON_OP(kRealDiv) = Binary({
    .name = "RealDiv",
    .attrs = kNumbers,
    .doc = "x / y for real numbers.",
    .properties = "elementwise, broadcasts, keeps_nan, computes(div(x, y))",
    .gradient = GradientFunction<DivGradient>,
});
TENON_OP(kDiv) = Binary({
    .name = "Div",
    .attrs = kNumbers,
    .doc = "x / y; integers are cut off towards zero, and division by the integer 0 is an error.",
    .properties = "elementwise, broadcasts, keeps_nan, computes(div(x, y))",
    .gradient = GradientFunction<DivGradient>,
});

TENON_OP(kFloorDiv) = Binary({
    .name = "FloorDiv",
    .attrs = kNumbers,
    .doc = "x / y rounded down; division by the integer 0 is an error.",
    .properties = "elementwise, broadcasts, computes(floor_div(x, y))",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SizesShape<QuotientOfSizes>>,
});

static void FloorModGradient(GradientContext& g) {
  const Output quotient = g.Op("FloorDiv", {g.input(0), g.input(1)});
  SetBoth(g, g.dy(0), g.Neg(g.Mul(g.dy(0), quotient)));
}
TENON_OP(kFloorMod) = Binary({
    .name = "FloorMod",
    .attrs = "T: realnumbertype",
    .doc = "What FloorDiv leaves over; it has y's sign.",
    .properties = "elementwise, broadcasts, computes(floor_mod(x, y))",
    .gradient = GradientFunction<FloorModGradient>,
});

TENON_OP(kTruncateMod) = Binary({
    .name = "TruncateMod",
    .attrs = "T: {int32, int64, bfloat16, half, float, double}",
    .doc = "What TruncateDiv leaves over; it has x's sign. Division by the integer 0 is an error.",
    .properties = "elementwise, broadcasts, computes(truncate_mod(x, y))",
});
static void DecomposeMod(DecomposeContext& d) { d.SetOutput(0, d.Op("TruncateMod", {d.input(0), d.input(1)})); }
TENON_OP(kMod) = Binary({
    .name = "Mod",
    .attrs = "T: {int32, int64, half, half, bfloat16, float, double}",
    .doc = "TruncateMod under its older name.",
    .properties = "elementwise, broadcasts",
    .decompose = DecomposeFunction<DecomposeMod>,
});

static void DivNoNanGradient(GradientContext& g) {
  const Output x = g.Conj(g.input(0)), y = g.Conj(g.input(1)), dz = g.dy(0);
  const Output twice = g.Op("DivNoNan", {g.Op("DivNoNan", {g.Neg(x), y}), y});
  SetBoth(g, g.Op("DivNoNan", {dz, y}), g.Mul(dz, twice));
}
TENON_OP(kDivNoNan) = Binary({
    .name = "DivNoNan",
    .attrs = "T: {half, float, bfloat16, double, complex64, complex128}",
    .doc = "x / y, and 0 where y is 0.",
    .properties = "elementwise, broadcasts, computes(div_no_nan(x, y))",
    .gradient = GradientFunction<DivNoNanGradient>,
});

TENON_OP(kTruncateDiv) = Binary({
    .name = "TruncateDiv",
    .attrs = kNumbers,
    .doc = "x / y cut off towards zero; division by the integer 0 is an error.",
    .properties = "elementwise, broadcasts, computes(truncate_div(x, y))",
    .traits = TENON_OP_NO_GRADIENT,
});

// TensorFlow conjugates nothing in the gradients of these three.
static void MulNoNanGradient(GradientContext& g) {
  const Output x = g.input(0), y = g.input(1), dz = g.dy(0);
  SetBoth(g, g.Op("MulNoNan", {dz, y}), g.Op("MulNoNan", {x, dz}));
}
TENON_OP(kMulNoNan) = Binary({
    .name = "MulNoNan",
    .attrs = "T: {bfloat16, half, float, double, complex64, complex128}",
    .doc = "x * y, and 0 where y is 0, whatever x is.",
    .properties = "elementwise, broadcasts, computes(mul_no_nan(x, y))",
    .gradient = GradientFunction<MulNoNanGradient>,
});

// 1 where x is not 0.
static Output NotZero(GradientContext& g, Output x) { return g.Cast(g.Op("NotEqual", {x, g.Scalar(0, x)}), g.type(x)); }

static void XdivyGradient(GradientContext& g) {
  const Output x = g.input(0), y = g.input(1), dz = g.dy(0);
  SetBoth(g, g.Mul(dz, g.Op("Xdivy", {NotZero(g, x), y})), g.Mul(dz, g.Op("Xdivy", {g.Neg(x), g.Op("Square", {y})})));
}
TENON_OP(kXdivy) = Binary({
    .name = "Xdivy",
    .attrs = "T: {half, bfloat16, float, double, complex64, complex128}",
    .doc = "x / y, and 0 where x is 0, whatever y is.",
    .properties = "elementwise, broadcasts, curve, computes(xdivy(x, y))",
    .gradient = GradientFunction<XdivyGradient>,
});

static void XlogyGradient(GradientContext& g) {
  const Output x = g.input(0), y = g.input(1), dz = g.dy(0);
  SetBoth(g, g.Mul(dz, g.Op("Xlogy", {NotZero(g, x), y})), g.Mul(dz, g.Op("Xdivy", {x, y})));
}
TENON_OP(kXlogy) = Binary({
    .name = "Xlogy",
    .attrs = "T: {half, bfloat16, float, double, complex64, complex128}",
    .doc = "x * log(y), and 0 where x is 0, whatever y is.",
    .properties = "elementwise, broadcasts, curve, computes(xlogy(x, y))",
    .gradient = GradientFunction<XlogyGradient>,
});

static void Xlog1pyGradient(GradientContext& g) {
  const Output x = g.input(0), y = g.input(1), dz = g.dy(0);
  SetBoth(g, g.Mul(dz, g.Op("Xlog1py", {NotZero(g, x), y})), g.Mul(dz, g.Op("Xdivy", {x, g.Add(y, g.Scalar(1, y))})));
}
TENON_OP(kXlog1py) = Binary({
    .name = "Xlog1py",
    .attrs = "T: {half, bfloat16, float, double, complex64, complex128}",
    .doc = "x * log(1 + y), exact for small y, and 0 where x is 0, whatever y is.",
    .properties = "elementwise, broadcasts, curve, computes(xlog1py(x, y))",
    .gradient = GradientFunction<Xlog1pyGradient>,
});

// x2 only says which way.
static void NextAfterGradient(GradientContext& g) {
  g.SetDxUnbroadcast(0, 1, g.dy(0));
  g.SetDx(1, g.ZerosLike(g.input(1)));
}
TENON_OP(kNextAfter) = DefineOp({
    .name = "NextAfter",
    .inputs = "x1: T, x2: T",
    .outputs = "output: T",
    .attrs = "T: {double, float} = float",
    .doc = "The number of the type that is next to x1 on the way to x2.",
    .properties = "elementwise, broadcasts, computes(next_after(x1, x2))",
    .shape = ShapeFunction<BroadcastShape>,
    .gradient = GradientFunction<NextAfterGradient>,
});

// Where both are equal the whole gradient goes to x.
static void ChooseGradient(GradientContext& g, std::string_view comparison) {
  const Output takes_x = g.Op(comparison, {g.input(0), g.input(1)});
  const Output zero = g.Scalar(0, g.dy(0));
  SetBoth(g, g.Select(takes_x, g.dy(0), zero), g.Select(takes_x, zero, g.dy(0)));
}
static void MaximumGradient(GradientContext& g) { ChooseGradient(g, "GreaterEqual"); }
static void MinimumGradient(GradientContext& g) { ChooseGradient(g, "LessEqual"); }
TENON_OP(kMaximum) = Binary({
    .name = "Maximum",
    .attrs = "T: realnumbertype",
    .doc = "The larger of x and y.",
    .properties = "elementwise, broadcasts, exact, fits_half, computes(maximum(x, y))",
    .gradient = GradientFunction<MaximumGradient>,
});
TENON_OP(kMinimum) = Binary({
    .name = "Minimum",
    .attrs = "T: realnumbertype",
    .doc = "The smaller of x and y.",
    .properties = "elementwise, broadcasts, exact, fits_half, computes(minimum(x, y))",
    .gradient = GradientFunction<MinimumGradient>,
});

static void PowGradient(GradientContext& g) {
  const Output dz = g.dy(0);
  const Output x = g.Conj(g.input(0)), y = g.Conj(g.input(1)), z = g.Conj(g.output(0));
  const Output slope = g.Mul(y, g.Op("Pow", {x, g.Sub(y, g.Scalar(1, y))}));
  // The logarithm only where there is one, so that no NaN comes out of what is not chosen.
  const Output zero = g.Scalar(0, x);
  const Output has_log = g.Op(IsComplex(g.type(x)) ? "NotEqual" : "Greater", {x, zero});
  const Output log = g.Select(has_log, g.Op("Log", {g.Select(has_log, x, g.Scalar(1, x))}), zero);
  SetBoth(g, g.Mul(dz, slope), g.Mul(dz, g.Mul(z, log)));
}
TENON_OP(kPow) = Binary({
    .name = "Pow",
    .attrs = "T: {bfloat16, float, half, double, int8, int16, int32, int64, complex64, complex128}",
    .doc = "x to the power of y; integers to a negative power are an error.",
    .properties = "elementwise, broadcasts, curve, computes(pow(x, y))",
    .gradient = GradientFunction<PowGradient>,
});

static void SquaredDifferenceGradient(GradientContext& g) {
  const Output dz = g.dy(0);
  const Output difference = g.Sub(g.input(0), g.input(1));  // of complex numbers too, as in TensorFlow
  const Output both = g.Mul(dz, g.Mul(g.Scalar(2, dz), difference));
  g.SetDxUnbroadcast(0, 1, both);
  g.SetDx(1, g.Neg(g.Unbroadcast(both, g.input(1), g.input(0))));
}
TENON_OP(kSquaredDifference) = Binary({
    .name = "SquaredDifference",
    .attrs = "T: {bfloat16, half, float, double, int32, int64, complex64, complex128}",
    .doc = "(x - y) * (x - y), with the conjugate of one factor for complex numbers.",
    .properties = "elementwise, broadcasts, keeps_nan, computes(squared_difference(x, y))",
    .traits = TENON_OP_COMMUTATIVE,
    .gradient = GradientFunction<SquaredDifferenceGradient>,
});

}  // namespace tenon::ops
