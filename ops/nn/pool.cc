// SPDX-License-Identifier: Apache-2.0
// MaxPool, AvgPool and their gradient ops.
#include "window.h"

namespace tenon::ops {
using namespace sdk;

static Shape PooledShape(ShapeContext& c, const Shape& input, bool has_explicit) {
  const Window window = ReadWindow(c, has_explicit, false);
  const std::array<int64_t, 2> size = PerPixel(c, window.layout, "ksize");
  if (!c.ok()) return Shape();
  const ImageLayout& layout = window.layout;
  return ImageShape(layout, input[0], WindowedSize(c, window, 0, input[layout.height], size[0]),
                    WindowedSize(c, window, 1, input[layout.width], size[1]), input[layout.channels]);
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
    .shape = ShapeFunction<AvgPoolShape>,
    .gradient = GradientFunction<AvgPoolGradient>,
    .cost = CostFunction<PoolCost>,
});

static void AvgPoolGradShape(ShapeContext& c) {
  c.Merge(c.WithRank(0, 1)[0], 4, "the length of orig_input_shape and 4");
  const Shape grad = c.WithRank(1, 4);
  const Shape input = c.InputAsShape(0);
  if (!input.known_rank() || !c.ok()) return c.SetOutput(0, Shape::OfRank(4));
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
    .shape = ShapeFunction<AvgPoolGradShape>,
    .gradient = GradientFunction<AvgPoolGradGradient>,
});

}  // namespace tenon::ops
