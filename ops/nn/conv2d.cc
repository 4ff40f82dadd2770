// SPDX-License-Identifier: Apache-2.0
// Conv2D and the two ops that are its gradients, and each other's.
#include "window.h"

namespace tenon::ops {
using namespace sdk;

// The filter is always [height, width, in, out]; `in` divides the input's channels (groups).
void Conv2DShape(ShapeContext& c) {
  const Shape input = c.WithRank(0, 4), filter = c.WithRank(1, 4);
  const Window window = ReadWindow(c, true, true);
  if (!c.ok()) return;
  const ImageLayout& layout = window.layout;
  const int64_t channels = input[layout.channels], in = filter[2], out = filter[3];
  if (in == 0) return c.Invalid("the filter ", filter, " has no input channels");
  if (channels >= 0 && in > 0 && channels % in != 0) {
    return c.Invalid("the input's ", channels, " channels are not a multiple of the filter's ", in);
  }
  const int64_t groups = channels >= 0 && in > 0 ? channels / in : kUnknown;
  if (groups > 1 && out >= 0 && out % groups != 0) {
    return c.Invalid("the filter's ", out, " output channels do not divide into ", groups, " groups");
  }
  c.SetOutput(0, ImageShape(layout, input[0], WindowedSize(c, window, 0, input[layout.height], filter[0]),
                            WindowedSize(c, window, 1, input[layout.width], filter[1]), out));
}

static std::vector<Attribute> ConvAttributes(GradientContext& g) {
  return SameAttributes(g, {"strides", "use_cudnn_on_gpu", "padding", "explicit_paddings", "data_format", "dilations"});
}

static void Conv2DGradient(GradientContext& g) {
  const Output x = g.input(0), filter = g.input(1), dy = g.dy(0);
  g.SetDx(0, g.Op("Conv2DBackpropInput", {g.ShapeOf(x), filter, dy}, ConvAttributes(g)));
  g.SetDx(1, g.Op("Conv2DBackpropFilter", {x, g.ShapeOf(filter), dy}, ConvAttributes(g)));
}

// Each output element is one window times one filter, in the forward op and in both gradients.
static void SetConvFlops(CostContext& c, const Shape& filter, const Shape& output) {
  const double window = CostContext::Elements(filter.Slice(0, 3));
  c.SetFlops(2.0 * window * CostContext::Elements(output));
}
static void Conv2DCost(CostContext& c) { SetConvFlops(c, c.Input(1), c.Output(0)); }
static void BackpropInputCost(CostContext& c) { SetConvFlops(c, c.Input(1), c.Input(2)); }
static void BackpropFilterCost(CostContext& c) { SetConvFlops(c, c.Output(0), c.Input(2)); }

TENON_OP(kConv2D) = DefineOp({
    .name = "Conv2D",
    .inputs = "input: T, filter: T",
    .outputs = "output: T",
    .attrs = "T: {half, bfloat16, float, double, int32}; strides: list(int); use_cudnn_on_gpu: bool = true; "
             "padding: {'SAME', 'VALID', 'EXPLICIT'}; explicit_paddings: list(int) = []; "
             "data_format: {'NHWC', 'NCHW'} = 'NHWC'; dilations: list(int) = [1, 1, 1, 1]",
    .constraints = "rank(input) == 4; rank(filter) == 4",
    .doc = "The cross-correlation of images with a filter [height, width, in, out].",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<Conv2DShape>,
    .gradient = GradientFunction<Conv2DGradient>,
    .cost = CostFunction<Conv2DCost>,
});

// What the forward op would give for `input` must be dy's shape.
static void CheckForward(ShapeContext& c, const Window& window, const Shape& input, const Shape& filter,
                         const Shape& dy) {
  const ImageLayout& layout = window.layout;
  if (!c.ok() || input.rank() != 4 || filter.rank() != 4) return;
  c.Merge(ImageShape(layout, input[0], WindowedSize(c, window, 0, input[layout.height], filter[0]),
                     WindowedSize(c, window, 1, input[layout.width], filter[1]), filter[3]),
          dy, "the convolution's output and out_backprop");
}

static void BackpropInputShape(ShapeContext& c) {
  c.WithRank(0, 1);
  const Shape filter = c.WithRank(1, 4), dy = c.WithRank(2, 4);
  const Window window = ReadWindow(c, true, true);
  if (!c.ok()) return;
  Shape input = c.InputAsShape(0);
  if (input.rank() == 2) {  // height and width alone
    input = ImageShape(window.layout, dy[0], input[0], input[1], filter[2]);
  }
  if (!input.known_rank()) return c.SetOutput(0, ImageShape(window.layout, dy[0], kUnknown, kUnknown, kUnknown));
  if (input.rank() != 4) return c.Invalid("input_sizes must have 4 numbers, or 2; it has ", input.rank());
  if (const int64_t channels = input[window.layout.channels];
      channels >= 0 && filter[2] > 0 && channels % filter[2] != 0) {
    return c.Invalid("the ", channels, " channels of input_sizes are not a multiple of the filter's ", filter[2]);
  }
  CheckForward(c, window, input, filter, dy);
  input.Set(0, c.Merge(input[0], dy[0], "the batches of input_sizes and out_backprop"));
  c.SetOutput(0, input);
}

static void BackpropInputGradient(GradientContext& g) {
  const Output filter = g.input(1), dy = g.input(2), gg = g.dy(0);
  g.SetDx(1, g.Op("Conv2DBackpropFilter", {gg, g.ShapeOf(filter), dy}, ConvAttributes(g)));
  g.SetDx(2, g.Op("Conv2D", {gg, filter}, ConvAttributes(g)));
}

TENON_OP(kConv2DBackpropInput) = DefineOp({
    .name = "Conv2DBackpropInput",
    .inputs = "input_sizes: int32, filter: T, out_backprop: T",
    .outputs = "output: T",
    .attrs = "T: {half, bfloat16, float, double, int32}; strides: list(int); use_cudnn_on_gpu: bool = true; "
             "padding: {'SAME', 'VALID', 'EXPLICIT'}; explicit_paddings: list(int) = []; "
             "data_format: {'NHWC', 'NCHW'} = 'NHWC'; dilations: list(int) = [1, 1, 1, 1]",
    .constraints = "rank(input_sizes) == 1; value(input_sizes) >= 0; rank(filter) == 4; rank(out_backprop) == 4",
    .doc = "The gradient of Conv2D with respect to its input, of shape input_sizes; also a transposed convolution.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<BackpropInputShape>,
    .gradient = GradientFunction<BackpropInputGradient>,
    .cost = CostFunction<BackpropInputCost>,
});

static void BackpropFilterShape(ShapeContext& c) {
  const Shape input = c.WithRank(0, 4), dy = c.WithRank(2, 4);
  c.WithRank(1, 1);
  const Window window = ReadWindow(c, true, true);
  if (!c.ok()) return;
  const Shape filter = c.InputAsShape(1);
  if (!filter.known_rank()) return c.SetOutput(0, Shape::OfRank(4));
  if (filter.rank() != 4) return c.Invalid("filter_sizes must have 4 numbers; it has ", filter.rank());
  CheckForward(c, window, input, filter, dy);
  c.SetOutput(0, filter);
}

static void BackpropFilterGradient(GradientContext& g) {
  const Output x = g.input(0), dy = g.input(2), gg = g.dy(0);
  g.SetDx(0, g.Op("Conv2DBackpropInput", {g.ShapeOf(x), gg, dy}, ConvAttributes(g)));
  g.SetDx(2, g.Op("Conv2D", {x, gg}, ConvAttributes(g)));
}

TENON_OP(kConv2DBackpropFilter) = DefineOp({
    .name = "Conv2DBackpropFilter",
    .inputs = "input: T, filter_sizes: int32, out_backprop: T",
    .outputs = "output: T",
    .attrs = "T: {half, bfloat16, float, double}; strides: list(int); use_cudnn_on_gpu: bool = true; "
             "padding: {'SAME', 'VALID', 'EXPLICIT'}; explicit_paddings: list(int) = []; "
             "data_format: {'NHWC', 'NCHW'} = 'NHWC'; dilations: list(int) = [1, 1, 1, 1]",
    .constraints = "rank(input) == 4; rank(filter_sizes) == 1; dim(filter_sizes, 0) == 4; value(filter_sizes) >= 0; "
                   "rank(out_backprop) == 4",
    .doc = "The gradient of Conv2D with respect to its filter, of shape filter_sizes.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<BackpropFilterShape>,
    .gradient = GradientFunction<BackpropFilterGradient>,
    .cost = CostFunction<BackpropFilterCost>,
});

}  // namespace tenon::ops
