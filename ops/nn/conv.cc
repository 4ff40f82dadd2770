// SPDX-License-Identifier: Apache-2.0
// Conv2D and Conv3D, each with the two ops that are its gradients, and each other's; and Conv, which is either.
#include "window.h"

namespace tenon::ops {
using namespace sdk;

// The filter is always [height, width, in, out], of volumes [depth, height, width, in, out]; `in` divides the input's
// channels (groups).
static Shape ConvolvedShape(ShapeContext& c, const Window& window, const Shape& input, const Shape& filter) {
  const int64_t channels = input[window.layout.channels], in = filter[-2], out = filter[-1];
  if (in == 0) c.Invalid("the filter ", filter, " has no input channels");
  if (channels >= 0 && in > 0 && channels % in != 0) {
    c.Invalid("the input's ", channels, " channels are not a multiple of the filter's ", in);
  }
  const int64_t groups = channels >= 0 && in > 0 ? channels / in : kUnknown;
  if (groups > 1 && out >= 0 && out % groups != 0) {
    c.Invalid("the filter's ", out, " output channels do not divide into ", groups, " groups");
  }
  if (!c.ok()) return Shape();
  return WindowedShape(c, window, input, FilterSize(filter, window.layout.directions), out);
}

// kDirections: 2 images, with explicit paddings, or 3 volumes, which have none.
template <int kDirections>
static void ConvShape(ShapeContext& c) {
  const Shape input = c.WithRank(0, kDirections + 2), filter = c.WithRank(1, kDirections + 2);
  const Window window = ReadWindow(c, kDirections == 2, true);
  if (c.ok()) c.SetOutput(0, ConvolvedShape(c, window, input, filter));
}
void Conv2DShape(ShapeContext& c) { ConvShape<2>(c); }

template <int kDirections>
static std::vector<Attribute> ConvAttributes(GradientContext& g) {
  if (kDirections == 3) return SameAttributes(g, {"strides", "padding", "data_format", "dilations"});
  return SameAttributes(g, {"strides", "use_cudnn_on_gpu", "padding", "explicit_paddings", "data_format", "dilations"});
}
template <int kDirections>
static Output Convolve(GradientContext& g, Output x, Output filter) {
  return g.Op(kDirections == 2 ? "Conv2D" : "Conv3D", {x, filter}, ConvAttributes<kDirections>(g));
}
template <int kDirections>
static Output BackpropInput(GradientContext& g, Output shape, Output filter, Output dy) {
  return g.Op(kDirections == 2 ? "Conv2DBackpropInput" : "Conv3DBackpropInputV2", {shape, filter, dy},
              ConvAttributes<kDirections>(g));
}
template <int kDirections>
static Output BackpropFilter(GradientContext& g, Output x, Output shape, Output dy) {
  return g.Op(kDirections == 2 ? "Conv2DBackpropFilter" : "Conv3DBackpropFilterV2", {x, shape, dy},
              ConvAttributes<kDirections>(g));
}

template <int kDirections>
static void ConvGradient(GradientContext& g) {
  const Output x = g.input(0), filter = g.input(1), dy = g.dy(0);
  g.SetDx(0, BackpropInput<kDirections>(g, g.ShapeOf(x), filter, dy));
  g.SetDx(1, BackpropFilter<kDirections>(g, x, g.ShapeOf(filter), dy));
}

// Each output element is one window times one filter, in the forward op and in both gradients.
static void SetConvFlops(CostContext& c, const Shape& filter, const Shape& output) {
  const double window = CostContext::Elements(filter.Slice(0, -1));
  c.SetFlops(2.0 * window * CostContext::Elements(output));
}
static void ConvCost(CostContext& c) { SetConvFlops(c, c.Input(1), c.Output(0)); }
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
    .properties = "product(input, filter), rows(input), fits_half",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<Conv2DShape>,
    .gradient = GradientFunction<ConvGradient<2>>,
    .cost = CostFunction<ConvCost>,
});

// What the forward op would give for `input` must be dy's shape.
static void CheckForward(ShapeContext& c, const Window& window, const Shape& input, const Shape& filter,
                         const Shape& dy) {
  if (!c.ok() || input.rank() != window.layout.rank() || filter.rank() != window.layout.rank()) return;
  c.Merge(WindowedShape(c, window, input, FilterSize(filter, window.layout.directions), filter[-1]), dy,
          "the convolution's output and out_backprop");
}

template <int kDirections>
static void BackpropInputShape(ShapeContext& c) {
  constexpr int kRank = kDirections + 2;
  c.WithRank(0, 1);
  const Shape filter = c.WithRank(1, kRank), dy = c.WithRank(2, kRank);
  const Window window = ReadWindow(c, kDirections == 2, true);
  if (!c.ok()) return;
  const ImageLayout& layout = window.layout;
  Shape input = c.InputAsShape(0), unknown = Shape::OfRank(kRank);
  unknown.Set(0, dy[0]);
  if (kDirections == 2 && input.rank() == 2) {  // height and width alone
    const Shape size = input;
    input = unknown;
    for (size_t i = 0; i < 2; ++i) input.Set(layout.Spatial(i), size[static_cast<int>(i)]);
    input.Set(layout.channels, filter[2]);
  }
  if (!input.known_rank()) return c.SetOutput(0, unknown);
  if (input.rank() != kRank)
    return c.Invalid("input_sizes must have ", kRank, " numbers", kDirections == 2 ? ", or 2" : "", "; it has ",
                     input.rank());
  if (const int64_t channels = input[layout.channels];
      channels >= 0 && filter[-2] > 0 && channels % filter[-2] != 0) {
    return c.Invalid("the ", channels, " channels of input_sizes are not a multiple of the filter's ", filter[-2]);
  }
  CheckForward(c, window, input, filter, dy);
  input.Set(0, c.Merge(input[0], dy[0], "the batches of input_sizes and out_backprop"));
  c.SetOutput(0, input);
}

template <int kDirections>
static void BackpropInputGradient(GradientContext& g) {
  const Output filter = g.input(1), dy = g.input(2), gg = g.dy(0);
  g.SetDx(1, BackpropFilter<kDirections>(g, gg, g.ShapeOf(filter), dy));
  g.SetDx(2, Convolve<kDirections>(g, gg, filter));
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
    .properties = "product(filter, out_backprop), fits_half",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<BackpropInputShape<2>>,
    .gradient = GradientFunction<BackpropInputGradient<2>>,
    .cost = CostFunction<BackpropInputCost>,
});

template <int kDirections>
static void BackpropFilterShape(ShapeContext& c) {
  constexpr int kRank = kDirections + 2;
  const Shape input = c.WithRank(0, kRank), dy = c.WithRank(2, kRank);
  c.WithRank(1, 1);
  const Window window = ReadWindow(c, kDirections == 2, true);
  if (!c.ok()) return;
  const Shape filter = c.InputAsShape(1);
  if (!filter.known_rank()) return c.SetOutput(0, Shape::OfRank(kRank));
  if (filter.rank() != kRank) return c.Invalid("filter_sizes must have ", kRank, " numbers; it has ", filter.rank());
  CheckForward(c, window, input, filter, dy);
  c.SetOutput(0, filter);
}

template <int kDirections>
static void BackpropFilterGradient(GradientContext& g) {
  const Output x = g.input(0), dy = g.input(2), gg = g.dy(0);
  g.SetDx(0, BackpropInput<kDirections>(g, g.ShapeOf(x), gg, dy));
  g.SetDx(2, Convolve<kDirections>(g, x, gg));
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
    .properties = "product(input, out_backprop), fits_half",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<BackpropFilterShape<2>>,
    .gradient = GradientFunction<BackpropFilterGradient<2>>,
    .cost = CostFunction<BackpropFilterCost>,
});

// What steps of precision bfloat16 and float16 run instead (tenon/extras/device/mixed_precision_pass.h), so that what
// weights are updated by is rounded nowhere.
TENON_OP(kConv2DBackpropFilterSums) = DefineOp({
    .name = "Tenon>Conv2DBackpropFilterSums",
    .inputs = "input: T, filter_sizes: int32, out_backprop: T",
    .outputs = "output: float",
    .attrs = "T: {half, bfloat16}; strides: list(int); padding: {'SAME', 'VALID', 'EXPLICIT'}; explicit_paddings: "
             "list(int) = []; "
             "data_format: {'NHWC', 'NCHW'} = 'NHWC'; dilations: list(int) = [1, 1, 1, 1]",
    .constraints = "rank(input) == 4; rank(filter_sizes) == 1; dim(filter_sizes, 0) == 4; value(filter_sizes) >= 0; "
                   "rank(out_backprop) == 4",
    .doc = "Conv2DBackpropFilter of images in 16 bits: its sums as they are, in float32.",
    .properties = "product(input, out_backprop)",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<BackpropFilterShape<2>>,
    .cost = CostFunction<BackpropFilterCost>,
});

// ---- Volumes ----

TENON_OP(kConv3D) = DefineOp({
    .name = "Conv3D",
    .inputs = "input: T, filter: T",
    .outputs = "output: T",
    .attrs = "T: {half, bfloat16, float, double}; strides: list(int) >= 5; padding: {'SAME', 'VALID'}; "
             "data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'; dilations: list(int) = [1, 1, 1, 1, 1]",
    .constraints = "rank(input) == 5; rank(filter) == 5",
    .doc = "The cross-correlation of volumes with a filter [depth, height, width, in, out].",
    .properties = "product(input, filter), rows(input)",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<ConvShape<3>>,
    .gradient = GradientFunction<ConvGradient<3>>,
    .cost = CostFunction<ConvCost>,
});

TENON_OP(kConv3DBackpropInputV2) = DefineOp({
    .name = "Conv3DBackpropInputV2",
    .inputs = "input_sizes: Tshape, filter: T, out_backprop: T",
    .outputs = "output: T",
    .attrs = "T: {half, bfloat16, float, double}; strides: list(int) >= 5; padding: {'SAME', 'VALID'}; "
             "data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'; dilations: list(int) = [1, 1, 1, 1, 1]; Tshape: {int32, "
             "int64} = int32",
    .constraints = "rank(input_sizes) == 1; dim(input_sizes, 0) == 5; value(input_sizes) >= 0; rank(filter) == 5; "
                   "rank(out_backprop) == 5",
    .doc = "The gradient of Conv3D with respect to its input, of shape input_sizes; also a transposed convolution.",
    .properties = "product(filter, out_backprop)",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<BackpropInputShape<3>>,
    .gradient = GradientFunction<BackpropInputGradient<3>>,
    .cost = CostFunction<BackpropInputCost>,
});

TENON_OP(kConv3DBackpropFilterV2) = DefineOp({
    .name = "Conv3DBackpropFilterV2",
    .inputs = "input: T, filter_sizes: int32, out_backprop: T",
    .outputs = "output: T",
    .attrs = "T: {half, bfloat16, float, double}; strides: list(int) >= 5; padding: {'SAME', 'VALID'}; "
             "data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'; dilations: list(int) = [1, 1, 1, 1, 1]",
    .constraints = "rank(input) == 5; rank(filter_sizes) == 1; dim(filter_sizes, 0) == 5; value(filter_sizes) >= 0; "
                   "rank(out_backprop) == 5",
    .doc = "The gradient of Conv3D with respect to its filter, of shape filter_sizes.",
    .properties = "product(input, out_backprop)",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<BackpropFilterShape<3>>,
    .gradient = GradientFunction<BackpropFilterGradient<3>>,
    .cost = CostFunction<BackpropFilterCost>,
});

// ---- Either, by the number of strides ----

namespace {

// What a node of Conv says, before its window.
struct AnyConv {
  explicit AnyConv(NodeContext& c)
      : batch_dims(c.Int("batch_dims")),
        rank(c.Ints("strides").size()),
        last(c.String("data_format") == "CHANNELS_LAST") {
    if (rank != 4 && rank != 5) {
      c.Invalid(
          "attribute 'strides' has ", rank,
          " numbers; Conv takes images, which need 4 (batch, height, width and channels), and volumes, which need 5");
      return;
    }
    if (batch_dims < 0) c.Invalid("attribute 'batch_dims' is ", batch_dims, "; it must not be negative");
    if (c.Int("groups") < 1) c.Invalid("attribute 'groups' is ", c.Int("groups"), "; it must be positive");
    for (const char* attr : {"explicit_paddings", "dilations"}) {
      const size_t given = c.Ints(attr).size(), needed = attr[0] == 'e' ? 2 * rank : rank;
      if (given != 0 && given != needed)
        c.Invalid("attribute '", attr, "' has ", given, " numbers; beside ", rank, " strides it needs ", needed);
    }
  }
  std::string_view format() const { return rank == 4 ? last ? "NHWC" : "NCHW" : last ? "NDHWC" : "NCDHW"; }
  int64_t batch_dims;
  size_t rank;  // with all batch dims as one
  bool last;
};

}  // namespace

static void AnyConvShape(ShapeContext& c) {
  const AnyConv conv(c);
  if (!c.ok()) return;
  const auto rank = static_cast<int>(conv.rank);
  const Shape given = c.WithRank(0, rank - 1 + static_cast<int>(std::min<int64_t>(conv.batch_dims, TENON_MAX_RANK))),
              filter = c.WithRank(1, rank);
  Window window;
  window.layout = LayoutOf(conv.format());
  window.padding = PaddingOf(c);
  window.strides = PerPixel(c, window.layout, "strides");
  if (!c.Ints("dilations").empty()) window.dilations = PerPixel(c, window.layout, "dilations");
  ReadPaddings(c, window);
  if (!c.ok()) return;
  const int batch_dims = static_cast<int>(conv.batch_dims);
  Shape input({kUnknown});
  for (int i = batch_dims; i < batch_dims + rank - 1; ++i) input.Append(given[i]);
  if (const int64_t channels = input[window.layout.channels], in = filter[-2];
      channels >= 0 && in > 0 && channels != c.Multiply(in, c.Int("groups"))) {
    return c.Invalid("the input's ", channels, " channels are not the filter's ", in,
                     " times groups = ", c.Int("groups"));
  }
  const Shape result = ConvolvedShape(c, window, input, filter);
  c.SetOutput(0, Join(given.known_rank() ? given.Slice(0, batch_dims) : Shape::OfRank(batch_dims), result.Slice(1)));
}

static void DecomposeAnyConv(DecomposeContext& d) {
  const AnyConv conv(d);
  if (!d.ok()) return;
  Output x = d.input(0), batch = {-1, 0, 0};
  if (conv.batch_dims != 1) {
    const Output shape = d.ShapeOf(x);
    batch = d.VectorSlice(shape, 0, conv.batch_dims);
    const Output together = d.Op("Prod", {batch, d.Vector({0})}, {{"keep_dims", true}});
    x = d.Reshape(x, d.Concat({together, d.VectorSlice(shape, conv.batch_dims)}));
  }
  std::vector<Attribute> attributes = SameAttributes(d, {"strides"});
  if (!d.Ints("dilations").empty()) attributes.emplace_back("dilations", d.Raw("dilations"));
  attributes.emplace_back("data_format", conv.format());
  const bool pads = conv.rank == 5 && d.String("padding") == "EXPLICIT";  // which Conv3D does not know
  if (pads) {
    x = d.Op("Pad", {x, d.Reshape(d.Vector(d.Ints("explicit_paddings")), d.Vector({-1, 2}))});
    attributes.emplace_back("padding", "VALID");
  } else {
    attributes.emplace_back("padding", d.Raw("padding"));
    if (conv.rank == 4) attributes.emplace_back("explicit_paddings", d.Raw("explicit_paddings"));
  }
  Output y = d.Op(conv.rank == 4 ? "Conv2D" : "Conv3D", {x, d.input(1)}, attributes);
  if (conv.batch_dims != 1) y = d.Reshape(y, d.Concat({batch, d.VectorSlice(d.ShapeOf(y), 1)}));
  d.SetOutput(0, y);
}

TENON_OP(kConv) = DefineOp({
    .name = "Conv",
    .inputs = "input: T, filter: T",
    .outputs = "output: T",
    .attrs = "T: {half, bfloat16, float, double, int32}; strides: list(int); padding: {'SAME', 'VALID', 'EXPLICIT'}; "
             "explicit_paddings: list(int) = []; "
             "data_format: {'CHANNELS_FIRST', 'CHANNELS_LAST'} = 'CHANNELS_LAST'; dilations: list(int) = []; "
             "batch_dims: int = 1; groups: int = 1",
    .constraints = "",
    .doc = "Conv2D or Conv3D, by the number of strides, of input with any number of batch dims.",
    .properties = "product(input, filter)",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<AnyConvShape>,
    .cost = CostFunction<ConvCost>,
    .decompose = DecomposeFunction<DecomposeAnyConv>,
});

}  // namespace tenon::ops
