// SPDX-License-Identifier: Apache-2.0
// DepthwiseConv2dNative, a convolution of each channel on its own, and the two ops that are its gradients.
#include "window.h"

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr std::string_view kDepthwiseAttrs =
    "T: {half, bfloat16, float, double}; strides: list(int); padding: {'SAME', 'VALID', 'EXPLICIT'}; "
    "explicit_paddings: list(int) = []; data_format: {'NHWC', 'NCHW'} = 'NHWC'; dilations: list(int) = [1, 1, 1, 1]";

std::vector<Attribute> ConvAttributes(GradientContext& g) {
  return SameAttributes(g, {"strides", "padding", "explicit_paddings", "data_format", "dilations"});
}

// The filter is [height, width, channels, multiplier], the result has channels * multiplier channels.
Shape ResultShape(ShapeContext& c, const Window& window, const Shape& input, const Shape& filter) {
  const ImageLayout& layout = window.layout;
  c.Merge(input[layout.channels], filter[2], "the channels of input and of filter");
  const int64_t channels = input[layout.channels] < 0 ? filter[2] : input[layout.channels];
  return WindowedShape(c, window, input, FilterSize(filter, 2), c.Multiply(channels, filter[3]));
}

void ForwardShape(ShapeContext& c) {
  const Shape input = c.WithRank(0, 4), filter = c.WithRank(1, 4);
  const Window window = ReadWindow(c, true, true);
  if (c.ok()) c.SetOutput(0, ResultShape(c, window, input, filter));
}

// Input kIndex says the shape of what comes out.
template <int kIndex>
void DepthwiseBackpropShape(ShapeContext& c) {
  c.WithRank(kIndex, 1);
  const Shape other = c.WithRank(1 - kIndex, 4), dy = c.WithRank(2, 4);
  const Window window = ReadWindow(c, true, true);
  const Shape wanted = c.InputAsShape(kIndex);
  if (!c.ok()) return;
  if (wanted.known_rank() && wanted.rank() != 4)
    return c.Invalid("the sizes must have 4 numbers; they have ", wanted.rank());
  const Shape input = kIndex == 0 ? wanted : other, filter = kIndex == 0 ? other : wanted;
  if (wanted.known_rank())
    c.Merge(ResultShape(c, window, input, filter), dy, "the convolution's output and out_backprop");
  c.SetOutput(0, wanted.known_rank() ? wanted : Shape::OfRank(4));
}

void ForwardGradient(GradientContext& g) {
  const Output x = g.input(0), filter = g.input(1), dy = g.dy(0);
  g.SetDx(0, g.Op("DepthwiseConv2dNativeBackpropInput", {g.ShapeOf(x), filter, dy}, ConvAttributes(g)));
  g.SetDx(1, g.Op("DepthwiseConv2dNativeBackpropFilter", {x, g.ShapeOf(filter), dy}, ConvAttributes(g)));
}
void BackpropInputGradient(GradientContext& g) {
  const Output filter = g.input(1), dy = g.input(2), gg = g.dy(0);
  g.SetDx(1, g.Op("DepthwiseConv2dNativeBackpropFilter", {gg, g.ShapeOf(filter), dy}, ConvAttributes(g)));
  g.SetDx(2, g.Op("DepthwiseConv2dNative", {gg, filter}, ConvAttributes(g)));
}
void BackpropFilterGradient(GradientContext& g) {
  const Output x = g.input(0), dy = g.input(2), gg = g.dy(0);
  g.SetDx(0, g.Op("DepthwiseConv2dNativeBackpropInput", {g.ShapeOf(x), gg, dy}, ConvAttributes(g)));
  g.SetDx(2, g.Op("DepthwiseConv2dNative", {x, gg}, ConvAttributes(g)));
}

// Each element of the result is one window of one channel.
void SetFlops(CostContext& c, const Shape& filter, const Shape& result) {
  c.SetFlops(2.0 * CostContext::Elements(filter.Slice(0, 2)) * CostContext::Elements(result));
}
void ForwardCost(CostContext& c) { SetFlops(c, c.Input(1), c.Output(0)); }
void DepthwiseInputCost(CostContext& c) { SetFlops(c, c.Input(1), c.Input(2)); }
void DepthwiseFilterCost(CostContext& c) { SetFlops(c, c.Output(0), c.Input(2)); }

}  // namespace

TENON_OP(kDepthwiseConv2dNative) = DefineOp({
    .name = "DepthwiseConv2dNative",
    .inputs = "input: T, filter: T",
    .outputs = "output: T",
    .attrs = kDepthwiseAttrs,
    .constraints = "rank(input) == 4; rank(filter) == 4",
    .doc =
        "The cross-correlation of each channel with its own filters, [height, width, channels, filters of a channel].",
    .properties = "product(input, filter), rows(input), fits_half",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<ForwardShape>,
    .gradient = GradientFunction<ForwardGradient>,
    .cost = CostFunction<ForwardCost>,
});

TENON_OP(kDepthwiseConv2dNativeBackpropInput) = DefineOp({
    .name = "DepthwiseConv2dNativeBackpropInput",
    .inputs = "input_sizes: int32, filter: T, out_backprop: T",
    .outputs = "output: T",
    .attrs = kDepthwiseAttrs,
    .constraints = "rank(input_sizes) == 1; dim(input_sizes, 0) == 4; value(input_sizes) >= 0; rank(filter) == 4; "
                   "rank(out_backprop) == 4",
    .doc = "The gradient of DepthwiseConv2dNative with respect to its input, of shape input_sizes.",
    .properties = "product(filter, out_backprop)",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<DepthwiseBackpropShape<0>>,
    .gradient = GradientFunction<BackpropInputGradient>,
    .cost = CostFunction<DepthwiseInputCost>,
});

TENON_OP(kDepthwiseConv2dNativeBackpropFilter) = DefineOp({
    .name = "DepthwiseConv2dNativeBackpropFilter",
    .inputs = "input: T, filter_sizes: int32, out_backprop: T",
    .outputs = "output: T",
    .attrs = kDepthwiseAttrs,
    .constraints = "rank(input) == 4; rank(filter_sizes) == 1; dim(filter_sizes, 0) == 4; value(filter_sizes) >= 0; "
                   "rank(out_backprop) == 4",
    .doc = "The gradient of DepthwiseConv2dNative with respect to its filter, of shape filter_sizes.",
    .properties = "product(input, out_backprop)",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<DepthwiseBackpropShape<1>>,
    .gradient = GradientFunction<BackpropFilterGradient>,
    .cost = CostFunction<DepthwiseFilterCost>,
});

}  // namespace tenon::ops
