// SPDX-License-Identifier: Apache-2.0
// Fused ops, as TensorFlow's optimizer writes them into frozen graphs: a product or a normalisation, and what is done
// to its result. They have no kernels of their own: each is the ops that it was made of.
#include "window.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// The steps that the attribute fused_ops names, one after the other, each with its share of the arguments.
class Steps {
 public:
  Steps(DecomposeContext& d, std::string_view argument) : d_(d), arguments_(d.InputRange(argument)) {}

  Output Apply(Output x) {
    for (std::string_view step : d_.Strings("fused_ops")) x = ApplyOne(step, x);
    if (d_.ok() && taken_ != arguments_.count)
      d_.Invalid("fused_ops take ", taken_, " arguments; there are ", arguments_.count);
    return x;
  }

 private:
  Output ApplyOne(std::string_view step, Output x) {
    if (step == "BiasAdd") return d_.Op("BiasAdd", {x, Next()}, Format());
    if (step == "Add") return d_.Add(x, Next());
    if (step == "FusedBatchNorm") return Normalize(x);
    if (step == "LeakyRelu") return d_.Op(step, {x}, {{"alpha", d_.Float("leakyrelu_alpha")}});
    if (step == "Relu" || step == "Relu6" || step == "Elu" || step == "Tanh" || step == "Sigmoid")
      return d_.Op(step, {x});
    if (step == "GeluExact") return Gelu(x, d_.Op("Erf", {d_.Mul(x, d_.Scalar(0.7071067811865476, x))}));
    if (step == "GeluApproximate") {
      const Output cube = d_.Mul(x, d_.Op("Square", {x}));
      const Output inner = d_.Add(x, d_.Mul(cube, d_.Scalar(0.044715, x)));
      return Gelu(x, d_.Op("Tanh", {d_.Mul(inner, d_.Scalar(0.7978845608028654, x))}));
    }
    d_.Fail(TENON_UNIMPLEMENTED, "fused_ops has '", step,
            "'; known are BiasAdd, Add, FusedBatchNorm, Relu, Relu6, LeakyRelu, Elu, Tanh, Sigmoid, GeluExact and "
            "GeluApproximate");
    return x;
  }
  Output Gelu(Output x, Output curve) {
    return d_.Mul(d_.Mul(x, d_.Scalar(0.5, x)), d_.Add(curve, d_.Scalar(1, x)));
  }
  // (x - mean) / sqrt(variance + epsilon) * scale + offset, by channels.
  Output Normalize(Output x) {
    const Output scale = Next(), offset = Next(), mean = Next(), variance = Next();
    if (d_.ok() && d_.String("data_format") != "NHWC")
      d_.Fail(TENON_UNIMPLEMENTED, "FusedBatchNorm in fused_ops needs the data_format NHWC");
    const Output deviation = d_.Op("Rsqrt", {d_.Add(variance, d_.Scalar(d_.Float("epsilon"), variance))});
    return d_.Add(d_.Mul(d_.Sub(x, mean), d_.Mul(deviation, scale)), offset);
  }
  std::vector<Attribute> Format() {
    return d_.op() == "_FusedConv2D" ? SameAttributes(d_, {"data_format"}) : std::vector<Attribute>();
  }
  Output Next() {
    if (taken_++ < arguments_.count) return d_.input(arguments_.begin + taken_ - 1);
    d_.Invalid("fused_ops take more arguments than the ", arguments_.count, " that there are");
    return {-1, 0, 0};
  }

  DecomposeContext& d_;
  const Range arguments_;
  int taken_ = 0;
};

}  // namespace

static void DecomposeConv2D(DecomposeContext& d) {
  if (d.String("filter_format") != "HWIO")
    d.Fail(TENON_UNIMPLEMENTED, "filter_format ", d.String("filter_format"), "; only HWIO is known");
  if (d.Int("num_host_args") != 0)
    d.Fail(TENON_UNIMPLEMENTED, "host_args belong to quantized convolutions, which are not known");
  const Output product = d.Op(
      "Conv2D", {d.input(0), d.input(1)},
      SameAttributes(d, {"strides", "use_cudnn_on_gpu", "padding", "explicit_paddings", "data_format", "dilations"}));
  d.SetOutput(0, Steps(d, "args").Apply(product));
}

TENON_OP(kFusedConv2D) = DefineOp({
    .name = "_FusedConv2D",
    .inputs = "input: T, filter: T, args: TArgs, host_args: num_host_args * float",
    .outputs = "output: T",
    .attrs = "T: {half, float, double, int8, qint8}; TArgs: list(type) >= 1; num_args: int >= 0; num_host_args: int >= "
             "0 = 0; strides: list(int); "
             "padding: {'SAME', 'VALID', 'EXPLICIT'}; explicit_paddings: list(int) = []; data_format: {'NHWC', 'NCHW', "
             "'NCHW_VECT_C'} = 'NHWC'; "
             "filter_format: {'HWIO', 'OIHW', 'OIHW_VECT_I'} = 'HWIO'; dilations: list(int) = [1, 1, 1, 1]; "
             "use_cudnn_on_gpu: bool = true; "
             "fused_ops: list(string) = []; epsilon: float = 0.0001; leakyrelu_alpha: float = 0.2",
    .constraints = "rank(input) == 4; rank(filter) == 4",
    .doc = "Conv2D, then each of fused_ops with its share of args.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<Conv2DShape>,
    .decompose = DecomposeFunction<DecomposeConv2D>,
});

static void FusedMatMulShape(ShapeContext& c) {
  const Shape a = c.WithRank(0, 2), b = c.WithRank(1, 2);
  const int a_rows = c.Bool("transpose_a") ? 1 : 0, b_rows = c.Bool("transpose_b") ? 1 : 0;
  c.Merge(a[1 - a_rows], b[b_rows], "the columns of a and the rows of b");
  c.SetOutput(0, {a[a_rows], b[1 - b_rows]});
}

static void DecomposeMatMul(DecomposeContext& d) {
  const Output product = d.Op("MatMul", {d.input(0), d.input(1)}, SameAttributes(d, {"transpose_a", "transpose_b"}));
  d.SetOutput(0, Steps(d, "args").Apply(product));
}

TENON_OP(kFusedMatMul) = DefineOp({
    .name = "_FusedMatMul",
    .inputs = "a: T, b: T, args: num_args * T",
    .outputs = "product: T",
    .attrs = "transpose_a: bool = false; transpose_b: bool = false; T: {bfloat16, half, float}; num_args: int >= 0; "
             "fused_ops: list(string) = []; epsilon: float = 0.0001; leakyrelu_alpha: float = 0.2",
    .constraints = "rank(a) == 2; rank(b) == 2",
    .doc = "MatMul, then each of fused_ops with its share of args.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<FusedMatMulShape>,
    .decompose = DecomposeFunction<DecomposeMatMul>,
});

static void DecomposeBatchNorm(DecomposeContext& d) {
  const int64_t norm = d.Node("FusedBatchNormV3", {d.input(0), d.input(1), d.input(2), d.input(3), d.input(4)},
                              SameAttributes(d, {"epsilon", "exponential_avg_factor", "data_format", "is_training"}));
  Output y{norm, 0, 0};
  if (d.Int("num_side_inputs") > 1) d.Invalid("num_side_inputs is ", d.Int("num_side_inputs"), "; it may be 0 or 1");
  if (d.Int("num_side_inputs") == 1) y = d.Add(y, d.input(5));
  const std::string_view activation = d.String("activation_mode");
  if (activation == "Relu") {
    y = d.Op("Relu", {y});
  } else if (activation != "Identity") {
    d.Invalid("activation_mode is '", activation, "'; it may be Identity or Relu");
  }
  d.SetOutput(0, y);
  for (int32_t k = 1; k < 6; ++k) d.SetOutput(k, {norm, k, 0});
}

TENON_OP(kFusedBatchNormEx) = DefineOp({
    .name = "_FusedBatchNormEx",
    .inputs = "x: T, scale: U, offset: U, mean: U, variance: U, side_input: num_side_inputs * T",
    .outputs = "y: T, batch_mean: U, batch_variance: U, reserve_space_1: U, reserve_space_2: U, reserve_space_3: U",
    .attrs = "T: {half, float, bfloat16}; U: {float}; epsilon: float = 0.0001; exponential_avg_factor: float = 1; "
             "num_side_inputs: int >= 0 = 0; "
             "activation_mode: string = 'Identity'; data_format: {'NHWC', 'NCHW'} = 'NHWC'; is_training: bool = true",
    .constraints = "rank(x) == 4; rank(scale) == 1; rank(offset) == 1; rank(mean) == 1; rank(variance) == 1",
    .doc = "Batch normalisation, plus a side input, then an activation.",
    .shape = ShapeFunction<BatchNormShape>,
    .decompose = DecomposeFunction<DecomposeBatchNorm>,
});

}  // namespace tenon::ops
