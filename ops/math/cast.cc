// SPDX-License-Identifier: Apache-2.0
// Cast, and of several tensors; CheckNumerics and its second version.
#include "tenon/sdk/op/decomposition.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void CastGradient(GradientContext& g) {
  const uint32_t from = g.Type("SrcT");
  if (IsDifferentiable(from) && IsDifferentiable(g.Type("DstT"))) g.SetDx(0, g.Cast(g.dy(0), from));
}

static void CastShape(ShapeContext& c) {
  SameShape(c);
  if (const auto sizes = c.Elements(0)) c.SetElements(0, *sizes);
}

TENON_OP(kCast) = DefineOp({
    .name = "Cast",
    .inputs = "x: SrcT",
    .outputs = "y: DstT",
    .attrs = "SrcT: type; DstT: type; Truncate: bool = false",
    .roles = "cast",
    .doc = "The same numbers in another type; real numbers become integers towards zero.",
    .properties = "elementwise, computes(cast(x, Truncate))",
    .shape = ShapeFunction<CastShape>,
    .gradient = GradientFunction<CastGradient>,
});

static void CastNShape(ShapeContext& c) {
  for (int i = 0; i < c.input_count(); ++i) c.SetOutput(i, c.Input(i));
}

// What steps of precision bfloat16 and float16 cast their variables by (tenon/extras/device/mixed_precision_pass.h): a
// device may do it in one go.
TENON_OP(kCastN) = DefineOp({
    .name = "Tenon>CastN",
    .inputs = "x: N * float",
    .outputs = "y: N * DstT",
    .attrs = "N: int >= 1; DstT: {half, bfloat16}",
    .doc = "Cast of each input.",
    .shape = ShapeFunction<CastNShape>,
});

static void CheckNumericsGradient(GradientContext& g) {
  const std::string message = Concat("in the gradient of: ", g.String("message"));
  g.SetDx(0, g.Op("CheckNumerics", {g.dy(0)}, {{"message", std::string_view(message)}}));
}

TENON_OP(kCheckNumerics) = DefineOp({
    .name = "CheckNumerics",
    .inputs = "tensor: T",
    .outputs = "output: T",
    .attrs = "T: {bfloat16, half, float, double}; message: string",
    .doc = "The input, unchanged; an error with the message if it holds NaN or an infinity.",
    .properties = "elementwise, exact",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<SameShape>,
    .gradient = GradientFunction<CheckNumericsGradient>,
});

static void DecomposeCheckNumericsV2(DecomposeContext& d) {
  d.SetOutput(0, d.Op("CheckNumerics", {d.input(0)}, {{"message", d.Raw("message")}}));
}

TENON_OP(kCheckNumericsV2) = DefineOp({
    .name = "CheckNumericsV2",
    .inputs = "tensor: T",
    .outputs = "output: T",
    .attrs = "T: {bfloat16, half, float, double}; message: string",
    .doc = "The input, unchanged; an error with the message if it holds NaN or an infinity. TensorFlow's says which "
           "sign an infinity has besides.",
    .properties = "elementwise, exact",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<SameShape>,
    .gradient = GradientFunction<CheckNumericsGradient>,
    .decompose = DecomposeFunction<DecomposeCheckNumericsV2>,
});

}  // namespace tenon::ops
