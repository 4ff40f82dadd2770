// SPDX-License-Identifier: Apache-2.0
// Activations, element by element, and their gradient ops.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr std::string_view kReals = "T: {half, bfloat16, float, double}";

consteval tenon_op_definition Activation(OpDefinition op) {
  op.inputs = "features: T";
  op.outputs = "activations: T";
  op.shape = ShapeFunction<SameShape>;
  return DefineOp(op);
}

consteval tenon_op_definition ActivationGrad(OpDefinition op) {
  op.inputs = op.inputs.empty() ? "gradients: T, features: T" : op.inputs;
  op.outputs = "backprops: T";
  op.shape = ShapeFunction<EqualShapes>;
  return DefineOp(op);
}

}  // namespace

static void ReluGradient(GradientContext& g) { g.SetDx(0, g.Op("ReluGrad", {g.dy(0), g.output(0)})); }
TENON_OP(kRelu) = Activation({
    .name = "Relu",
    .attrs = "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64, qint8}",
    .doc = "The larger of features and 0.",
    .properties = "elementwise, exact, fits_half, computes(relu(features))",
    .gradient = GradientFunction<ReluGradient>,
});

static void ReluGradGradient(GradientContext& g) {
  g.SetDx(0, g.Op("ReluGrad", {g.dy(0), g.input(1)}));
  g.SetZero(1);
}
TENON_OP(kReluGrad) = ActivationGrad({
    .name = "ReluGrad",
    .attrs = "T: realnumbertype",
    .doc = "gradients where features (Relu's input or output) are positive, else 0.",
    .properties = "elementwise, exact, fits_half, computes(relu_grad(gradients, features))",
    .gradient = GradientFunction<ReluGradGradient>,
});

static void Relu6Gradient(GradientContext& g) { g.SetDx(0, g.Op("Relu6Grad", {g.dy(0), g.output(0)})); }
TENON_OP(kRelu6) = Activation({
    .name = "Relu6",
    .attrs = "T: realnumbertype",
    .doc = "features cut to [0, 6].",
    .properties = "elementwise, exact, fits_half, computes(relu6(features))",
    .gradient = GradientFunction<Relu6Gradient>,
});

static void Relu6GradGradient(GradientContext& g) {
  g.SetDx(0, g.Op("Relu6Grad", {g.dy(0), g.input(1)}));
  g.SetZero(1);
}
TENON_OP(kRelu6Grad) = ActivationGrad({
    .name = "Relu6Grad",
    .attrs = "T: realnumbertype",
    .doc = "gradients where 0 < features < 6, else 0.",
    .properties = "elementwise, exact, fits_half, computes(relu6_grad(gradients, features))",
    .gradient = GradientFunction<Relu6GradGradient>,
});

static void EluGradient(GradientContext& g) { g.SetDx(0, g.Op("EluGrad", {g.dy(0), g.output(0)})); }
TENON_OP(kElu) = Activation({
    .name = "Elu",
    .attrs = kReals,
    .doc = "features, and Exp(features) - 1 where they are negative.",
    .properties = "elementwise, curve, keeps_nan, fits_half, computes(elu(features))",
    .gradient = GradientFunction<EluGradient>,
});

static void EluGradGradient(GradientContext& g) {
  const Output dy = g.input(0), y = g.input(1), gg = g.dy(0);
  g.SetDx(0, g.Op("EluGrad", {gg, y}));
  g.SetDx(1, g.Select(g.Op("Less", {y, g.Scalar(0, y)}), g.Mul(gg, dy), g.Scalar(0, gg)));
}
TENON_OP(kEluGrad) = ActivationGrad({
    .name = "EluGrad",
    .inputs = "gradients: T, outputs: T",
    .attrs = kReals,
    .doc = "The gradient of Elu, from its outputs: gradients * (outputs + 1) where they are negative.",
    .properties = "elementwise, fits_half, computes(elu_grad(gradients, outputs))",
    .gradient = GradientFunction<EluGradGradient>,
});

static void SeluGradient(GradientContext& g) { g.SetDx(0, g.Op("SeluGrad", {g.dy(0), g.output(0)})); }
TENON_OP(kSelu) = Activation({
    .name = "Selu",
    .attrs = kReals,
    .doc = "1.0507 * features, and 1.7581 * (Exp(features) - 1) where they are negative: outputs of mean 0 and "
           "variance 1 stay so.",
    .properties = "elementwise, curve, keeps_nan, computes(selu(features))",
    .gradient = GradientFunction<SeluGradient>,
});

static void SeluGradGradient(GradientContext& g) {
  const Output dy = g.input(0), y = g.input(1), gg = g.dy(0);
  g.SetDx(0, g.Op("SeluGrad", {gg, y}));
  g.SetDx(1, g.Select(g.Op("Less", {y, g.Scalar(0, y)}), g.Mul(gg, dy), g.Scalar(0, gg)));
}
TENON_OP(kSeluGrad) = ActivationGrad({
    .name = "SeluGrad",
    .inputs = "gradients: T, outputs: T",
    .attrs = kReals,
    .doc = "The gradient of Selu, from its outputs: gradients * (outputs + 1.7581) where they are negative, else "
           "1.0507 * gradients.",
    .properties = "elementwise, computes(selu_grad(gradients, outputs))",
    .gradient = GradientFunction<SeluGradGradient>,
});

static void LeakyReluGradient(GradientContext& g) {
  g.SetDx(0, g.Op("LeakyReluGrad", {g.dy(0), g.input(0)}, {{"alpha", g.Float("alpha")}}));
}
TENON_OP(kLeakyRelu) = Activation({
    .name = "LeakyRelu",
    .attrs = "alpha: float = 0.2; T: {half, bfloat16, float, double} = float",
    .doc = "features where they are positive, else alpha * features.",
    .properties = "elementwise, fits_half, computes(leaky_relu(features, alpha))",
    .gradient = GradientFunction<LeakyReluGradient>,
});

static void LeakyReluGradGradient(GradientContext& g) {
  g.SetDx(0, g.Op("LeakyReluGrad", {g.dy(0), g.input(1)}, {{"alpha", g.Float("alpha")}}));
  g.SetZero(1);
}
TENON_OP(kLeakyReluGrad) = ActivationGrad({
    .name = "LeakyReluGrad",
    .attrs = "alpha: float = 0.2; T: {half, bfloat16, float, double} = float",
    .doc = "gradients where features are positive, else alpha * gradients.",
    .properties = "elementwise, fits_half, computes(leaky_relu_grad(gradients, features, alpha))",
    .gradient = GradientFunction<LeakyReluGradGradient>,
});

static void SoftplusGradient(GradientContext& g) { g.SetDx(0, g.Mul(g.dy(0), g.Op("Sigmoid", {g.input(0)}))); }
TENON_OP(kSoftplus) = Activation({
    .name = "Softplus",
    .attrs = kReals,
    .doc = "Log(1 + Exp(features)).",
    .properties = "elementwise, curve, keeps_nan, computes(softplus(features))",
    .gradient = GradientFunction<SoftplusGradient>,
});

static void SoftplusGradGradient(GradientContext& g) {
  const Output dy = g.input(0), x = g.input(1), gg = g.dy(0);
  const Output exps = g.Add(g.Op("Exp", {g.Neg(x)}), g.Op("Exp", {x}));
  g.SetDx(0, g.Op("SoftplusGrad", {gg, x}));
  g.SetDx(1, g.Div(g.Mul(gg, dy), g.Add(exps, g.Scalar(2, x))));
}
TENON_OP(kSoftplusGrad) = ActivationGrad({
    .name = "SoftplusGrad",
    .attrs = kReals,
    .doc = "The gradient of Softplus: gradients * Sigmoid(features).",
    .properties = "elementwise, curve, computes(softplus_grad(gradients, features))",
    .gradient = GradientFunction<SoftplusGradGradient>,
});

static void SoftsignGradient(GradientContext& g) { g.SetDx(0, g.Op("SoftsignGrad", {g.dy(0), g.input(0)})); }
TENON_OP(kSoftsign) = Activation({
    .name = "Softsign",
    .attrs = kReals,
    .doc = "features / (1 + Abs(features)).",
    .properties = "elementwise, keeps_nan, computes(softsign(features))",
    .gradient = GradientFunction<SoftsignGradient>,
});

TENON_OP(kSoftsignGrad) = ActivationGrad({
    .name = "SoftsignGrad",
    .attrs = kReals,
    .doc = "The gradient of Softsign: gradients / (1 + Abs(features))^2.",
    .properties = "elementwise, computes(softsign_grad(gradients, features))",
});

}  // namespace tenon::ops
