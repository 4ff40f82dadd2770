// SPDX-License-Identifier: Apache-2.0
// What sessions of precision int8 run (passes/int8 puts it there): numbers as bytes, and products and convolutions of
// bytes with weights, to which biases, normalisations, another image and an activation belong.
// tenon/extras/kernel/int8.h says what each number is.
#include "tenon/sdk/op/op.h"
#include "tenon/extras/op/window.h"

namespace tenon::ops {
using namespace sdk;

namespace {

void SameShape(ShapeContext& c) { c.SetOutput(0, c.Input(0)); }

// Every vector, and the addend, are of the output's channels and shape.
void WithEpilogue(ShapeContext& c, Shape output) {
  const Range vectors = c.InputRange("vectors"), addends = c.InputRange("addend");
  for (int i = 0; i < vectors.count; ++i)
    output.Set(-1,
               c.Merge(output[-1], c.WithRank(vectors.begin + i, 1)[0], "the output's channels and a vector's length"));
  for (int i = 0; i < addends.count; ++i)
    output = c.Merge(output, c.Input(addends.begin + i), "the output and the addend");
  c.SetOutput(0, output);
}

void Int8Conv2DShape(ShapeContext& c) {
  const Shape input = c.WithRank(0, 4), filter = c.WithRank(1, 4);
  const Window window = ReadWindow(c, true, true, false);
  const bool depthwise = c.Bool("depthwise");
  if (!c.ok()) return;
  if (depthwise) c.Merge(input[3], filter[2], "the channels of input and of filter");
  else if (input[3] >= 0 && filter[2] > 0 && input[3] % filter[2] != 0)
    c.Invalid("the input's ", input[3], " channels are not a multiple of the filter's ", filter[2]);
  if (!c.ok()) return;
  WithEpilogue(c, WindowedShape(c, window, input, FilterSize(filter, 2),
                                depthwise ? c.Multiply(filter[2], filter[3]) : filter[3]));
}

void Int8MatMulShape(ShapeContext& c) {
  const Shape a = c.WithRank(0, 2), b = c.WithRank(1, 2);
  const bool transposed = c.Bool("transpose_b");
  c.Merge(a[1], b[transposed ? 1 : 0], "the inner dims");
  WithEpilogue(c, {a[0], b[transposed ? 0 : 1]});
}

void Int8Conv2DCost(CostContext& c) {
  const Shape filter = c.Input(1);
  c.SetFlops(2.0 * CostContext::Elements(c.Bool("depthwise") ? filter.Slice(0, 2) : filter.Slice(0, 3)) *
             CostContext::Elements(c.Output(0)));
}
void Int8MatMulCost(CostContext& c) {
  c.SetFlops(2.0 * static_cast<double>(c.Input(0)[1]) * CostContext::Elements(c.Output(0)));
}

}  // namespace

TENON_OP(kInt8Quantize) = DefineOp({
    .name = "Tenon>Int8Quantize",
    .inputs = "input: float",
    .outputs = "output: uint8",
    .attrs = "scale: float; zero: int >= 0",
    .doc = "The byte nearest to input / scale + zero; what lies outside of the bytes goes to their ends. NaN and "
           "infinities are an error.",
    .shape = ShapeFunction<SameShape>,
});

TENON_OP(kInt8Dequantize) = DefineOp({
    .name = "Tenon>Int8Dequantize",
    .inputs = "input: uint8",
    .outputs = "output: float",
    .attrs = "scale: float; zero: int >= 0",
    .doc = "(input - zero) scale: the number that each byte stands for.",
    .shape = ShapeFunction<SameShape>,
});

#define TENON_INT8_EPILOGUE                                                                                     \
  "Tout: {uint8, float}; M: int >= 0; A: int >= 0; steps: list(string) = []; epsilons: list(float) = []; "      \
  "activation: {'', 'Relu', 'Relu6'} = ''; input_scale: float; input_zero: int >= 0; addend_scale: float = 1; " \
  "addend_zero: int >= 0 = 0; "                                                                                 \
  "output_scale: float = 1; output_zero: int >= 0 = 0"

TENON_OP(kInt8Conv2D) = DefineOp({
    .name = "Tenon>Int8Conv2D",
    .inputs = "input: uint8, filter: float, vectors: M * float, addend: A * uint8",
    .outputs = "output: Tout",
    .attrs = TENON_INT8_EPILOGUE
    "; depthwise: bool = false; strides: list(int); padding: {'SAME', 'VALID', 'EXPLICIT'}; explicit_paddings: "
    "list(int) = []; "
    "dilations: list(int) = [1, 1, 1, 1]",
    .constraints = "rank(input) == 4; rank(filter) == 4",
    .doc = "Conv2D, or DepthwiseConv2dNative, of images of bytes with a filter that becomes 8-bit integers, each "
           "output channel's in a scale of its own. "
           "To each result come the steps (bias: a vector is added; norm: a normalisation with scale, offset, mean and "
           "variance), the addend and the activation.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<Int8Conv2DShape>,
    .cost = CostFunction<Int8Conv2DCost>,
});

TENON_OP(kInt8MatMul) = DefineOp({
    .name = "Tenon>Int8MatMul",
    .inputs = "input: uint8, filter: float, vectors: M * float, addend: A * uint8",
    .outputs = "output: Tout",
    .attrs = TENON_INT8_EPILOGUE "; transpose_b: bool = false",
    .constraints = "rank(input) == 2; rank(filter) == 2",
    .doc = "Tenon>Int8Conv2D's product of matrices.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<Int8MatMulShape>,
    .cost = CostFunction<Int8MatMulCost>,
});

}  // namespace tenon::ops
