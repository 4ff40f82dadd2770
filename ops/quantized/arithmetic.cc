// SPDX-License-Identifier: Apache-2.0
// Arithmetic of quantized tensors: the integers that 0 is in their ranges are taken off before they are multiplied or
// added.
#include "range.h"
#include "tenon/extras/op/moved_shapes.h"
#include "tenon/extras/op/window.h"

namespace tenon::ops {
using namespace sdk;

namespace {

void BiasAddShape(ShapeContext& c) {
  Shape input = c.WithRankAtLeast(0, 2);
  const Shape bias = c.WithRank(1, 1);
  if (input.known_rank()) input.Set(-1, c.Merge(input[-1], bias[0], "the last dim of input and the length of bias"));
  WithScalars(c, 2, 6);
  SetWithRange(c, input);
}

void MatMulShape(ShapeContext& c) {
  const Shape a = c.WithRank(0, 2), b = c.WithRank(1, 2);
  const bool ta = c.Bool("transpose_a"), tb = c.Bool("transpose_b");
  c.Merge(a[ta ? 0 : 1], b[tb ? 1 : 0], "the inner dims");
  WithScalars(c, 2, 6);
  SetWithRange(c, {a[ta ? 1 : 0], b[tb ? 0 : 1]});
}

void Conv2DShape(ShapeContext& c) {
  const Shape input = c.WithRank(0, 4), filter = c.WithRank(1, 4);
  WithScalars(c, 2, 6);
  const Window window = ReadWindow(c, false, true, false);
  if (!c.ok()) return;
  c.Merge(input[3], filter[2], "the channels of input and of filter");
  SetWithRange(c, {input[0], WindowedSize(c, window, 0, input[1], filter[0]),
                   WindowedSize(c, window, 1, input[2], filter[1]), filter[3]});
}

void MatMulCost(CostContext& c) {
  c.SetFlops(2.0 * static_cast<double>(c.Input(0)[c.Bool("transpose_a") ? 0 : 1]) * CostContext::Elements(c.Output(0)));
}
void Conv2DCost(CostContext& c) {
  c.SetFlops(2.0 * CostContext::Elements(c.Input(1).Slice(0, 3)) * CostContext::Elements(c.Output(0)));
}

void MaxPoolShape(ShapeContext& c) {
  const Shape input = c.WithRank(0, 4);
  WithScalars(c, 1, 3);
  const Window window = ReadWindow(c, false, false, false);
  const PerDirection size = PerPixel(c, window.layout, "ksize");
  if (!c.ok()) return;
  SetWithRange(c, {input[0], WindowedSize(c, window, 0, input[1], size[0]),
                   WindowedSize(c, window, 1, input[2], size[1]), input[3]});
}

// A larger integer is a larger number.
void DecomposeMaxPool(DecomposeContext& d) {
  const uint32_t quantized = d.Type("T"), plain = quantized == TENON_DT_QINT8 ? TENON_DT_INT8 : TENON_DT_UINT8;
  if (quantized != TENON_DT_QINT8 && quantized != TENON_DT_QUINT8)
    d.Fail(TENON_UNIMPLEMENTED, "T is ", TypeName(quantized), "; there are qint8 and quint8");
  const Output input = d.Op("Bitcast", {d.input(0)}, {Attribute::Type("type", plain)});
  const Output pooled = d.Op("MaxPool", {input}, SameAttributes(d, {"ksize", "strides", "padding"}));
  d.SetOutput(0, d.Op("Bitcast", {pooled}, {Attribute::Type("type", quantized)}));
  d.SetOutput(1, PassedBound(d, 1));
  d.SetOutput(2, PassedBound(d, 2));
}

void ReshapeShape(ShapeContext& c) {
  WithScalars(c, 2, 4);
  SetWithRange(c, ReshapedShape(c));
}

void DecomposeReshape(DecomposeContext& d) {
  d.SetOutput(0, d.Reshape(d.input(0), d.input(1)));
  d.SetOutput(1, PassedBound(d, 2));
  d.SetOutput(2, PassedBound(d, 3));
}

void ConcatShape(ShapeContext& c) {
  const int count = static_cast<int>(c.Int("N"));
  WithScalars(c, 1 + count, c.input_count());
  SetWithRange(c, ConcatenatedShape(c, 0, 1, count));
}

}  // namespace

TENON_OP(kQuantizedBiasAdd) = DefineOp({
    .name = "QuantizedBiasAdd",
    .inputs = "input: T1, bias: T2, min_input: float, max_input: float, min_bias: float, max_bias: float",
    .outputs = "output: out_type, min_out: float, max_out: float",
    .attrs = "T1: quantizedtype; T2: quantizedtype; out_type: quantizedtype",
    .constraints = "rank(input) >= 2; rank(bias) == 1; dim(bias, 0) == dim(input, -1); rank(min_input) == 0; "
                   "rank(max_input) == 0; "
                   "rank(min_bias) == 0; rank(max_bias) == 0",
    .doc = "input with bias added along the last dim, in a range that is symmetric about 0 and 2^17 times as wide as "
           "either needs.",
    .shape = ShapeFunction<BiasAddShape>,
});

TENON_OP(kQuantizedMatMul) = DefineOp({
    .name = "QuantizedMatMul",
    .inputs = "a: T1, b: T2, min_a: float, max_a: float, min_b: float, max_b: float",
    .outputs = "out: Toutput, min_out: float, max_out: float",
    .attrs = "T1: quantizedtype; T2: quantizedtype; Toutput: quantizedtype = qint32; transpose_a: bool = false; "
             "transpose_b: bool = false; "
             "Tactivation: quantizedtype = quint8",
    .constraints = "rank(a) == 2; rank(b) == 2; rank(min_a) == 0; rank(max_a) == 0; rank(min_b) == 0; rank(max_b) == 0",
    .doc = "The product of two matrices, each of which may be transposed first.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<MatMulShape>,
    .cost = CostFunction<MatMulCost>,
});

TENON_OP(kQuantizedConv2D) = DefineOp({
    .name = "QuantizedConv2D",
    .inputs =
        "input: Tinput, filter: Tfilter, min_input: float, max_input: float, min_filter: float, max_filter: float",
    .outputs = "output: out_type, min_output: float, max_output: float",
    .attrs = "Tinput: quantizedtype; Tfilter: quantizedtype; out_type: quantizedtype = qint32; strides: list(int); "
             "padding: {'SAME', 'VALID'}; "
             "dilations: list(int) = [1, 1, 1, 1]",
    .constraints = "rank(input) == 4; rank(filter) == 4; rank(min_input) == 0; rank(max_input) == 0; rank(min_filter) "
                   "== 0; rank(max_filter) == 0",
    .doc = "The cross-correlation of images [batch, height, width, in] with a filter [height, width, in, out].",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<Conv2DShape>,
    .cost = CostFunction<Conv2DCost>,
});

TENON_OP(kQuantizedMaxPool) = DefineOp({
    .name = "QuantizedMaxPool",
    .inputs = "input: T, min_input: float, max_input: float",
    .outputs = "output: T, min_output: float, max_output: float",
    .attrs = "T: quantizedtype; ksize: list(int); strides: list(int); padding: {'SAME', 'VALID'}",
    .constraints = "rank(input) == 4; rank(min_input) == 0; rank(max_input) == 0",
    .doc = "The largest number of each window of each image and channel.",
    .shape = ShapeFunction<MaxPoolShape>,
    .decompose = DecomposeFunction<DecomposeMaxPool>,
});

TENON_OP(kQuantizedRelu) = DefineOp({
    .name = "QuantizedRelu",
    .inputs = "features: Tinput, min_features: float, max_features: float",
    .outputs = "activations: out_type, min_activations: float, max_activations: float",
    .attrs = "Tinput: quantizedtype; out_type: quantizedtype = quint8",
    .constraints = "rank(min_features) == 0; rank(max_features) == 0",
    .doc = "Each number, or 0 where it is less; in the same range.",
    .shape = ShapeFunction<SameShapeWithRange>,
});

TENON_OP(kQuantizedReshape) = DefineOp({
    .name = "QuantizedReshape",
    .inputs = "tensor: T, shape: Tshape, input_min: float, input_max: float",
    .outputs = "output: T, output_min: float, output_max: float",
    .attrs = "T: type; Tshape: {int32, int64} = int32",
    .constraints = "rank(shape) == 1; value(shape) >= -1; rank(input_min) == 0; rank(input_max) == 0",
    .doc = "Reshape of a quantized tensor.",
    .shape = ShapeFunction<ReshapeShape>,
    .decompose = DecomposeFunction<DecomposeReshape>,
});

TENON_OP(kQuantizedConcat) = DefineOp({
    .name = "QuantizedConcat",
    .inputs = "concat_dim: int32, values: N * T, input_mins: N * float, input_maxes: N * float",
    .outputs = "output: T, output_min: float, output_max: float",
    .attrs = "N: int >= 2; T: type",
    .constraints = "rank(concat_dim) == 0",
    .doc = "Tensors side by side along concat_dim, in the range that holds all of theirs; of signed integers it is "
           "symmetric about 0.",
    .shape = ShapeFunction<ConcatShape>,
});

}  // namespace tenon::ops
