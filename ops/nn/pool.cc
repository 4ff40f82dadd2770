// SPDX-License-Identifier: Apache-2.0
// MaxPool, AvgPool and their gradient ops, of images and of volumes; MaxPool whose window is an input, and with places.
#include "window.h"

namespace tenon::ops {
using namespace sdk;

static Shape PooledShape(ShapeContext& c, const Shape& input, bool has_explicit) {
  const Window window = ReadWindow(c, has_explicit, false);
  const PerDirection size = PerPixel(c, window.layout, "ksize");
  if (!c.ok()) return Shape();
  return WindowedShape(c, window, input, size, input[window.layout.channels]);
}

static void MaxPoolShape(ShapeContext& c) {
  if (c.String("data_format") == "NCHW_VECT_C") return;  // rank 5: not inferred
  c.SetOutput(0, PooledShape(c, c.WithRank(0, 4), true));
}

static void MaxPoolGradient(GradientContext& g) {
  g.SetDx(0, g.Op("MaxPoolGrad", {g.input(0), g.output(0), g.dy(0)},
                  SameAttributes(g, {"ksize", "strides", "padding", "explicit_paddings", "data_format"})));
}

static void PoolCost(CostContext& c) {
  const std::vector<int64_t> size = c.Ints("ksize");
  double window = 1;
  for (int64_t value : size) window *= static_cast<double>(value);
  c.SetFlops(window * CostContext::Elements(c.Output(0)));
}

TENON_OP(kMaxPool) = DefineOp({
    .name = "MaxPool",
    .inputs = "input: T",
    .outputs = "output: T",
    .attrs = "T: {half, bfloat16, float, double, int32, int64, uint8, int16, int8, uint16, qint8} = float; "
             "ksize: list(int) >= 4; strides: list(int) >= 4; padding: {'SAME', 'VALID', 'EXPLICIT'}; "
             "explicit_paddings: list(int) = []; data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'",
    .constraints = "rank(input) >= 4; rank(input) <= 5",
    .doc = "The largest element of each window of each image and channel; padding never wins.",
    .properties = "exact, rows(input), fits_half",
    .shape = ShapeFunction<MaxPoolShape>,
    .gradient = GradientFunction<MaxPoolGradient>,
    .cost = CostFunction<PoolCost>,
});

static void MaxPoolGradShape(ShapeContext& c) {
  const Shape input = c.WithRank(0, 4);
  const Shape pooled = c.Merge(c.WithRank(1, 4), c.WithRank(2, 4), "the shapes of orig_output and grad");
  c.Merge(PooledShape(c, input, true), pooled, "the pooled shape and grad's shape");
  c.SetOutput(0, input);
}

static void MaxPoolGradGradient(GradientContext& g) {
  g.SetZero(0);
  g.SetZero(1);
  g.SetDx(2, g.Op("MaxPoolGradGrad", {g.input(0), g.input(1), g.dy(0)},
                  SameAttributes(g, {"ksize", "strides", "padding", "data_format"})));
}

TENON_OP(kMaxPoolGrad) = DefineOp({
    .name = "MaxPoolGrad",
    .inputs = "orig_input: T, orig_output: T, grad: T",
    .outputs = "output: T",
    .attrs = "ksize: list(int) >= 4; strides: list(int) >= 4; padding: {'SAME', 'VALID', 'EXPLICIT'}; "
             "explicit_paddings: list(int) = []; data_format: {'NHWC', 'NCHW'} = 'NHWC'; T: realnumbertype = float",
    .constraints = "rank(orig_input) == 4; rank(orig_output) == 4; rank(grad) == 4",
    .doc = "The gradient of MaxPool: each window's gradient goes to the first of its largest elements.",
    .properties = "fits_half",
    .shape = ShapeFunction<MaxPoolGradShape>,
    .gradient = GradientFunction<MaxPoolGradGradient>,
});

static void MaxPoolGradGradShape(ShapeContext& c) {
  const Shape input = c.Merge(c.WithRank(0, 4), c.WithRank(2, 4), "the shapes of orig_input and grad");
  c.SetOutput(0, c.Merge(PooledShape(c, input, false), c.WithRank(1, 4), "the pooled shape and orig_output's shape"));
}

static void MaxPoolGradGradGradient(GradientContext& g) {
  g.SetZero(0);
  g.SetZero(1);
  g.SetDx(2, g.Op("MaxPoolGrad", {g.input(0), g.input(1), g.dy(0)},
                  SameAttributes(g, {"ksize", "strides", "padding", "data_format"})));
}

TENON_OP(kMaxPoolGradGrad) = DefineOp({
    .name = "MaxPoolGradGrad",
    .inputs = "orig_input: T, orig_output: T, grad: T",
    .outputs = "output: T",
    .attrs = "ksize: list(int) >= 4; strides: list(int) >= 4; padding: {'SAME', 'VALID'}; "
             "data_format: {'NHWC', 'NCHW'} = 'NHWC'; T: realnumbertype",
    .constraints = "rank(orig_input) == 4; rank(orig_output) == 4; rank(grad) == 4",
    .doc = "The gradient of MaxPoolGrad: grad where each window's first largest element is.",
    .shape = ShapeFunction<MaxPoolGradGradShape>,
    .gradient = GradientFunction<MaxPoolGradGradGradient>,
});

static void AvgPoolShape(ShapeContext& c) { c.SetOutput(0, PooledShape(c, c.WithRank(0, 4), false)); }

static void AvgPoolGradient(GradientContext& g) {
  g.SetDx(0, g.Op("AvgPoolGrad", {g.ShapeOf(g.input(0)), g.dy(0)},
                  SameAttributes(g, {"ksize", "strides", "padding", "data_format"})));
}

TENON_OP(kAvgPool) = DefineOp({
    .name = "AvgPool",
    .inputs = "value: T",
    .outputs = "output: T",
    .attrs = "ksize: list(int) >= 4; strides: list(int) >= 4; padding: {'SAME', 'VALID'}; "
             "data_format: {'NHWC', 'NCHW'} = 'NHWC'; T: {half, bfloat16, float, double}",
    .constraints = "rank(value) == 4",
    .doc = "The mean of each window of each image and channel; padding does not count.",
    .properties = "rows(value), fits_half",
    .shape = ShapeFunction<AvgPoolShape>,
    .gradient = GradientFunction<AvgPoolGradient>,
    .cost = CostFunction<PoolCost>,
});

template <int kRank>
static void AvgPoolGradShape(ShapeContext& c) {
  c.Merge(c.WithRank(0, 1)[0], kRank, "the length of orig_input_shape and the input's rank");
  const Shape grad = c.WithRank(1, kRank);
  const Shape input = c.InputAsShape(0);
  if (!input.known_rank() || !c.ok()) return c.SetOutput(0, Shape::OfRank(kRank));
  c.Merge(PooledShape(c, input, false), grad, "the pooled shape and grad's shape");
  c.SetOutput(0, input);
}

static void AvgPoolGradGradient(GradientContext& g) {
  g.SetDx(1, g.Op("AvgPool", {g.dy(0)}, SameAttributes(g, {"ksize", "strides", "padding", "data_format"})));
}

TENON_OP(kAvgPoolGrad) = DefineOp({
    .name = "AvgPoolGrad",
    .inputs = "orig_input_shape: int32, grad: T",
    .outputs = "output: T",
    .attrs = "ksize: list(int) >= 4; strides: list(int) >= 4; padding: {'SAME', 'VALID'}; "
             "data_format: {'NHWC', 'NCHW'} = 'NHWC'; T: {half, bfloat16, float, double}",
    .constraints = "rank(orig_input_shape) == 1; dim(orig_input_shape, 0) == 4; value(orig_input_shape) >= 0; "
                   "rank(grad) == 4",
    .doc = "The gradient of AvgPool, in the shape orig_input_shape.",
    .properties = "fits_half",
    .shape = ShapeFunction<AvgPoolGradShape<4>>,
    .gradient = GradientFunction<AvgPoolGradGradient>,
});

// ---- Windows that are inputs ----

// Of an input that says the window, from `first` on: ksize and strides. Where one is not known yet, neither are height
// and width.
static Shape PooledByInputs(ShapeContext& c, const Shape& input, int first) {
  Window window;
  window.layout = LayoutOf(c.String("data_format"));
  window.padding = PaddingOf(c);
  const auto ksize = c.Integers(first), strides = c.Integers(first + 1);
  PerDirection size = {1, 1, 1};
  if (ksize.has_value()) size = PerPixel(c, window.layout, "ksize", *ksize);
  if (strides.has_value()) window.strides = PerPixel(c, window.layout, "strides", *strides);
  if (!c.ok()) return Shape();
  Shape pooled = WindowedShape(c, window, input, size, input[window.layout.channels]);
  if (ksize.has_value() && strides.has_value()) return pooled;
  for (size_t i = 0; i < 2; ++i) pooled.Set(window.layout.Spatial(i), kUnknown);
  return pooled;
}

static void MaxPoolV2Shape(ShapeContext& c) {
  if (c.String("data_format") == "NCHW_VECT_C") return;  // rank 5: not inferred
  c.SetOutput(0, PooledByInputs(c, c.WithRank(0, 4), 1));
}
static void MaxPoolV2Gradient(GradientContext& g) {
  g.SetDx(0, g.Op("MaxPoolGradV2", {g.input(0), g.output(0), g.dy(0), g.input(1), g.input(2)},
                  SameAttributes(g, {"padding", "data_format"})));
}

TENON_OP(kMaxPoolV2) = DefineOp({
    .name = "MaxPoolV2",
    .inputs = "input: T, ksize: int32, strides: int32",
    .outputs = "output: T",
    .attrs = "T: {half, bfloat16, float, double, int32, int64, uint8, int16, int8, uint16, qint8} = float; "
             "padding: {'SAME', 'VALID'}; data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'",
    .constraints = "rank(input) >= 4; rank(input) <= 5; rank(ksize) == 1; dim(ksize, 0) == 4; rank(strides) == 1; "
                   "dim(strides, 0) == 4; "
                   "value(ksize) > 0; value(strides) > 0",
    .doc = "MaxPool with a window that is an input.",
    .shape = ShapeFunction<MaxPoolV2Shape>,
    .gradient = GradientFunction<MaxPoolV2Gradient>,
});

static void MaxPoolGradV2Shape(ShapeContext& c) {
  const Shape input = c.WithRank(0, 4);
  const Shape pooled = c.Merge(c.WithRank(1, 4), c.WithRank(2, 4), "the shapes of orig_output and grad");
  c.Merge(PooledByInputs(c, input, 3), pooled, "the pooled shape and grad's shape");
  c.SetOutput(0, input);
}
static void MaxPoolGradGradV2Shape(ShapeContext& c) {
  const Shape input = c.Merge(c.WithRank(0, 4), c.WithRank(2, 4), "the shapes of orig_input and grad");
  c.SetOutput(0, c.Merge(PooledByInputs(c, input, 3), c.WithRank(1, 4), "the pooled shape and orig_output's shape"));
}
static void SetDxOfGrad(GradientContext& g, std::string_view op) {
  g.SetZero(0);
  g.SetZero(1);
  g.SetDx(2, g.Op(op, {g.input(0), g.input(1), g.dy(0), g.input(3), g.input(4)},
                  SameAttributes(g, {"padding", "data_format"})));
}
static void MaxPoolGradV2Gradient(GradientContext& g) { SetDxOfGrad(g, "MaxPoolGradGradV2"); }
static void MaxPoolGradGradV2Gradient(GradientContext& g) { SetDxOfGrad(g, "MaxPoolGradV2"); }

static constexpr std::string_view kGradV2Inputs =
    "orig_input: T, orig_output: T, grad: T, ksize: int32, strides: int32";
static constexpr std::string_view kGradV2Constraints =
    "rank(orig_input) == 4; rank(orig_output) == 4; rank(grad) == 4; rank(ksize) == 1; dim(ksize, 0) == 4; "
    "rank(strides) == 1; dim(strides, 0) == 4; "
    "value(ksize) > 0; value(strides) > 0";

TENON_OP(kMaxPoolGradV2) = DefineOp({
    .name = "MaxPoolGradV2",
    .inputs = kGradV2Inputs,
    .outputs = "output: T",
    .attrs = "padding: {'SAME', 'VALID'}; data_format: {'NHWC', 'NCHW'} = 'NHWC'; T: realnumbertype = float",
    .constraints = kGradV2Constraints,
    .doc = "The gradient of MaxPoolV2: each window's gradient goes to the first of its largest elements.",
    .shape = ShapeFunction<MaxPoolGradV2Shape>,
    .gradient = GradientFunction<MaxPoolGradV2Gradient>,
});

TENON_OP(kMaxPoolGradGradV2) = DefineOp({
    .name = "MaxPoolGradGradV2",
    .inputs = kGradV2Inputs,
    .outputs = "output: T",
    .attrs = "padding: {'SAME', 'VALID'}; data_format: {'NHWC', 'NCHW'} = 'NHWC'; T: realnumbertype",
    .constraints = kGradV2Constraints,
    .doc = "The gradient of MaxPoolGradV2: grad where each window's first largest element is.",
    .shape = ShapeFunction<MaxPoolGradGradV2Shape>,
    .gradient = GradientFunction<MaxPoolGradGradV2Gradient>,
});

// ---- With places ----

// These ops have no data_format.
static Shape PooledChannelsLast(ShapeContext& c, const Shape& input) {
  Window window;
  window.padding = PaddingOf(c);
  window.strides = PerPixel(c, window.layout, "strides");
  const PerDirection size = PerPixel(c, window.layout, "ksize");
  if (!c.ok()) return Shape();
  return WindowedShape(c, window, input, size, input[3]);
}

static void WithArgmaxShape(ShapeContext& c) {
  const Shape pooled = PooledChannelsLast(c, c.WithRank(0, 4));
  c.SetOutput(0, pooled);
  c.SetOutput(1, pooled);
}
static Output OfArgmax(GradientContext& g, std::string_view op, Output argmax, Output gradient) {
  return g.Op(op, {g.input(0), gradient, argmax},
              SameAttributes(g, {"ksize", "strides", "padding", "include_batch_in_index"}));
}
static void WithArgmaxGradient(GradientContext& g) {
  g.SetDx(0, OfArgmax(g, "MaxPoolGradWithArgmax", g.output(1), g.dy(0)));
}

TENON_OP(kMaxPoolWithArgmax) = DefineOp({
    .name = "MaxPoolWithArgmax",
    .inputs = "input: T",
    .outputs = "output: T, argmax: Targmax",
    .attrs =
        "ksize: list(int) >= 4; strides: list(int) >= 4; Targmax: {int32, int64} = int64; padding: {'SAME', 'VALID'}; "
        "include_batch_in_index: bool = false; T: realnumbertype",
    .constraints = "rank(input) == 4",
    .doc = "The largest element of each window, and where the first such stands: (y * width + x) * channels + channel, "
           "with include_batch_in_index "
           "counted through the batch.",
    .shape = ShapeFunction<WithArgmaxShape>,
    .gradient = GradientFunction<WithArgmaxGradient>,
    .cost = CostFunction<PoolCost>,
});

static constexpr std::string_view kGradWithArgmaxAttrs =
    "ksize: list(int) >= 4; strides: list(int) >= 4; padding: {'SAME', 'VALID'}; include_batch_in_index: bool = false; "
    "Targmax: {int32, int64}; "
    "T: realnumbertype";

static void GradWithArgmaxShape(ShapeContext& c) {
  const Shape input = c.WithRank(0, 4), pooled = PooledChannelsLast(c, input);
  c.Merge(c.Merge(pooled, c.WithRank(1, 4), "the pooled shape and grad's shape"), c.WithRank(2, 4),
          "the shapes of grad and argmax");
  c.SetOutput(0, input);
}
static void GradGradWithArgmaxShape(ShapeContext& c) {
  const Shape input = c.Merge(c.WithRank(0, 4), c.WithRank(1, 4), "the shapes of input and grad");
  c.SetOutput(0, c.Merge(PooledChannelsLast(c, input), c.WithRank(2, 4), "the pooled shape and argmax' shape"));
}
static void GradWithArgmaxGradient(GradientContext& g) {
  g.SetZero(0);
  g.SetDx(1, OfArgmax(g, "MaxPoolGradGradWithArgmax", g.input(2), g.dy(0)));
}
static void GradGradWithArgmaxGradient(GradientContext& g) {
  g.SetZero(0);
  g.SetDx(1, OfArgmax(g, "MaxPoolGradWithArgmax", g.input(2), g.dy(0)));
}

TENON_OP(kMaxPoolGradWithArgmax) = DefineOp({
    .name = "MaxPoolGradWithArgmax",
    .inputs = "input: T, grad: T, argmax: Targmax",
    .outputs = "output: T",
    .attrs = kGradWithArgmaxAttrs,
    .constraints = "rank(input) == 4; rank(grad) == 4; rank(argmax) == 4",
    .doc = "The gradient of MaxPoolWithArgmax: grad goes to the places argmax.",
    .shape = ShapeFunction<GradWithArgmaxShape>,
    .gradient = GradientFunction<GradWithArgmaxGradient>,
});

TENON_OP(kMaxPoolGradGradWithArgmax) = DefineOp({
    .name = "MaxPoolGradGradWithArgmax",
    .inputs = "input: T, grad: T, argmax: Targmax",
    .outputs = "output: T",
    .attrs = kGradWithArgmaxAttrs,
    .constraints = "rank(input) == 4; rank(grad) == 4; rank(argmax) == 4",
    .doc = "The gradient of MaxPoolGradWithArgmax: grad at the places argmax.",
    .shape = ShapeFunction<GradGradWithArgmaxShape>,
    .gradient = GradientFunction<GradGradWithArgmaxGradient>,
});

// ---- Volumes ----

static void Pool3DShape(ShapeContext& c) { c.SetOutput(0, PooledShape(c, c.WithRank(0, 5), false)); }
static std::vector<Attribute> WindowOf(GradientContext& g) {
  return SameAttributes(g, {"ksize", "strides", "padding", "data_format"});
}

static void MaxPool3DGradient(GradientContext& g) {
  g.SetDx(0, g.Op("MaxPool3DGrad", {g.input(0), g.output(0), g.dy(0)}, WindowOf(g)));
}

TENON_OP(kMaxPool3D) = DefineOp({
    .name = "MaxPool3D",
    .inputs = "input: T",
    .outputs = "output: T",
    .attrs = "ksize: list(int) >= 5; strides: list(int) >= 5; padding: {'SAME', 'VALID'}; data_format: {'NDHWC', "
             "'NCDHW'} = 'NDHWC'; "
             "T: {half, bfloat16, float}",
    .constraints = "rank(input) == 5",
    .doc = "The largest element of each window of each volume and channel; padding never wins.",
    .properties = "exact, rows(input)",
    .shape = ShapeFunction<Pool3DShape>,
    .gradient = GradientFunction<MaxPool3DGradient>,
    .cost = CostFunction<PoolCost>,
});

static void MaxPool3DGradShape(ShapeContext& c) {
  const Shape input = c.WithRank(0, 5);
  c.Merge(PooledShape(c, input, false),
          c.Merge(c.WithRank(1, 5), c.WithRank(2, 5), "the shapes of orig_output and grad"),
          "the pooled shape and grad's shape");
  c.SetOutput(0, input);
}
static void MaxPool3DGradGradShape(ShapeContext& c) {
  const Shape input = c.Merge(c.WithRank(0, 5), c.WithRank(2, 5), "the shapes of orig_input and grad");
  c.SetOutput(0, c.Merge(PooledShape(c, input, false), c.WithRank(1, 5), "the pooled shape and orig_output's shape"));
}
static void SetDxOfGrad3D(GradientContext& g, std::string_view op) {
  g.SetZero(0);
  g.SetZero(1);
  g.SetDx(2, g.Op(op, {g.input(0), g.input(1), g.dy(0)}, WindowOf(g)));
}
static void MaxPool3DGradGradient(GradientContext& g) { SetDxOfGrad3D(g, "MaxPool3DGradGrad"); }
static void MaxPool3DGradGradGradient(GradientContext& g) { SetDxOfGrad3D(g, "MaxPool3DGrad"); }

TENON_OP(kMaxPool3DGrad) = DefineOp({
    .name = "MaxPool3DGrad",
    .inputs = "orig_input: TInput, orig_output: TInput, grad: T",
    .outputs = "output: T",
    .attrs = "ksize: list(int) >= 5; strides: list(int) >= 5; padding: {'SAME', 'VALID'}; data_format: {'NDHWC', "
             "'NCDHW'} = 'NDHWC'; "
             "T: {half, bfloat16, float} = float; TInput: {half, bfloat16, float} = float",
    .constraints = "rank(orig_input) == 5; rank(orig_output) == 5; rank(grad) == 5",
    .doc = "The gradient of MaxPool3D: each window's gradient goes to each of its largest elements.",
    .shape = ShapeFunction<MaxPool3DGradShape>,
    .gradient = GradientFunction<MaxPool3DGradGradient>,
});

TENON_OP(kMaxPool3DGradGrad) = DefineOp({
    .name = "MaxPool3DGradGrad",
    .inputs = "orig_input: T, orig_output: T, grad: T",
    .outputs = "output: T",
    .attrs = "ksize: list(int) >= 5; strides: list(int) >= 5; padding: {'SAME', 'VALID'}; data_format: {'NDHWC', "
             "'NCDHW'} = 'NDHWC'; T: realnumbertype",
    .constraints = "rank(orig_input) == 5; rank(orig_output) == 5; rank(grad) == 5",
    .doc = "The gradient of MaxPool3DGrad: grad where each window's first largest element is.",
    .shape = ShapeFunction<MaxPool3DGradGradShape>,
    .gradient = GradientFunction<MaxPool3DGradGradGradient>,
});

static void AvgPool3DGradient(GradientContext& g) {
  g.SetDx(0, g.Op("AvgPool3DGrad", {g.ShapeOf(g.input(0)), g.dy(0)}, WindowOf(g)));
}

TENON_OP(kAvgPool3D) = DefineOp({
    .name = "AvgPool3D",
    .inputs = "input: T",
    .outputs = "output: T",
    .attrs = "ksize: list(int) >= 5; strides: list(int) >= 5; padding: {'SAME', 'VALID'}; data_format: {'NDHWC', "
             "'NCDHW'} = 'NDHWC'; "
             "T: {half, bfloat16, float, double}",
    .constraints = "rank(input) == 5",
    .doc = "The mean of each window of each volume and channel; padding does not count.",
    .properties = "rows(input)",
    .shape = ShapeFunction<Pool3DShape>,
    .gradient = GradientFunction<AvgPool3DGradient>,
    .cost = CostFunction<PoolCost>,
});

static void AvgPool3DGradGradient(GradientContext& g) { g.SetDx(1, g.Op("AvgPool3D", {g.dy(0)}, WindowOf(g))); }

TENON_OP(kAvgPool3DGrad) = DefineOp({
    .name = "AvgPool3DGrad",
    .inputs = "orig_input_shape: int32, grad: T",
    .outputs = "output: T",
    .attrs = "ksize: list(int) >= 5; strides: list(int) >= 5; padding: {'SAME', 'VALID'}; data_format: {'NDHWC', "
             "'NCDHW'} = 'NDHWC'; "
             "T: {half, bfloat16, float, double}",
    .constraints =
        "rank(orig_input_shape) == 1; dim(orig_input_shape, 0) == 5; value(orig_input_shape) >= 0; rank(grad) == 5",
    .doc = "The gradient of AvgPool3D, in the shape orig_input_shape.",
    .shape = ShapeFunction<AvgPoolGradShape<5>>,
    .gradient = GradientFunction<AvgPool3DGradGradient>,
});

}  // namespace tenon::ops
