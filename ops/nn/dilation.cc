// SPDX-License-Identifier: Apache-2.0
// Dilation2D, grey-scale dilation of images, and the two ops that are its gradients.
#include "window.h"

namespace tenon::ops {
using namespace sdk;

static constexpr std::string_view kAttrs =
    "T: realnumbertype; strides: list(int) >= 4; rates: list(int) >= 4; padding: {'SAME', 'VALID'}";

static Shape DilatedShape(ShapeContext& c, const Shape& input, const Shape& filter) {
  Window window;
  window.padding = PaddingOf(c);
  window.strides = PerPixel(c, window.layout, "strides");
  window.dilations = PerPixel(c, window.layout, "rates");
  const int64_t channels = c.Merge(input[3], filter[2], "the channels of input and of filter");
  return c.ok() ? WindowedShape(c, window, input, FilterSize(filter, 2), channels) : Shape();
}

static void DilationShape(ShapeContext& c) { c.SetOutput(0, DilatedShape(c, c.WithRank(0, 4), c.WithRank(1, 3))); }

// The output has the shape of input kLike.
template <int kLike>
static void BackpropShape(ShapeContext& c) {
  const Shape input = c.WithRank(0, 4), filter = c.WithRank(1, 3);
  c.Merge(DilatedShape(c, input, filter), c.WithRank(2, 4), "the dilation's output and out_backprop");
  c.SetOutput(0, kLike == 0 ? input : filter);
}

static void DilationGradient(GradientContext& g) {
  for (int i = 0; i < 2; ++i) {
    g.SetDx(i, g.Op(i == 0 ? "Dilation2DBackpropInput" : "Dilation2DBackpropFilter", {g.input(0), g.input(1), g.dy(0)},
                    SameAttributes(g, {"strides", "rates", "padding"})));
  }
}

TENON_OP(kDilation2D) = DefineOp({
    .name = "Dilation2D",
    .inputs = "input: T, filter: T",
    .outputs = "output: T",
    .attrs = kAttrs,
    .constraints = "rank(input) == 4; rank(filter) == 3",
    .doc = "The largest sum of each window's elements and the filter's [height, width, channels], channel by channel; "
           "rates: cells from tap to tap.",
    .shape = ShapeFunction<DilationShape>,
    .gradient = GradientFunction<DilationGradient>,
});

TENON_OP(kDilation2DBackpropInput) = DefineOp({
    .name = "Dilation2DBackpropInput",
    .inputs = "input: T, filter: T, out_backprop: T",
    .outputs = "in_backprop: T",
    .attrs = kAttrs,
    .constraints = "rank(input) == 4; rank(filter) == 3; rank(out_backprop) == 4",
    .doc = "The gradient of Dilation2D with respect to its input: each window's goes to the element of the first "
           "largest sum.",
    .shape = ShapeFunction<BackpropShape<0>>,
});

TENON_OP(kDilation2DBackpropFilter) = DefineOp({
    .name = "Dilation2DBackpropFilter",
    .inputs = "input: T, filter: T, out_backprop: T",
    .outputs = "filter_backprop: T",
    .attrs = kAttrs,
    .constraints = "rank(input) == 4; rank(filter) == 3; rank(out_backprop) == 4",
    .doc = "The gradient of Dilation2D with respect to its filter: each window's goes to the tap of the first largest "
           "sum.",
    .shape = ShapeFunction<BackpropShape<1>>,
});

}  // namespace tenon::ops
