// SPDX-License-Identifier: Apache-2.0
// RGBToHSV, HSVToRGB, AdjustHue, AdjustSaturation and AdjustContrastv2.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

void ColorShape(ShapeContext& c) {
  Shape images = c.WithRankAtLeast(0, 1);
  if (images.known_rank()) images.Set(-1, c.Merge(images[-1], 3, "the channels and 3"));
  c.SetOutput(0, images);
}
void AdjustShape(ShapeContext& c) {
  c.WithRank(1, 0);
  c.SetOutput(0, c.WithRankAtLeast(0, 3));
}

// Channels [..., 0], [..., 1] and [..., 2] of x.
struct Channels {
  Channels(GradientContext& g, Output x) {
    const int64_t node = g.Node("Unpack", {x}, {{"num", 3}, {"axis", -1}});
    for (int32_t i = 0; i < 3; ++i) at[i] = {node, i, 0};
  }
  Output operator[](int i) const { return at[i]; }
  Output at[3];
};

// Where the largest and the smallest channel are, red before green before blue, as TensorFlow has it. Each gradient is
// that of the formula that holds there: value = largest, saturation = 1 - smallest / largest (of a channel that is 0
// TensorFlow leaves that out), hue = (of red) (green - blue) / (6 range), and so on in turn.
class HsvGradient {
 public:
  explicit HsvGradient(GradientContext& g)
      : g_(g), x_(g, g.input(0)), dy_(g, g.dy(0)), zero_(g.Scalar(0, g.input(0))), one_(g.Scalar(1, g.input(0))) {
    for (int i = 0; i < 3; ++i) channels_[i] = x_[i];
    const Output r = x_[0], green = x_[1], b = x_[2];
    largest_[0] = And(Op("GreaterEqual", r, b), Op("GreaterEqual", r, green));
    largest_[1] = And(Op("Greater", green, r), Op("GreaterEqual", green, b));
    largest_[2] = And(Op("Greater", b, r), Op("Greater", b, green));
    smallest_[0] = And(Op("Less", r, b), Op("Less", r, green));
    smallest_[1] = And(Op("LessEqual", green, r), Op("Less", green, b));
    smallest_[2] = And(Op("LessEqual", b, r), Op("LessEqual", b, green));
    max_ = Op("Maximum", Op("Maximum", r, green), b);
    min_ = Op("Minimum", Op("Minimum", r, green), b);
  }

  Output Gradient() {
    const Output range = g_.Sub(max_, min_);
    const Output of_range = g_.Op("DivNoNan", {g_.Scalar(1.0 / 6, max_), range});
    const Output of_max = g_.Op("DivNoNan", {one_, max_});
    std::vector<Output> dx;
    for (int i = 0; i < 3; ++i) {
      const Output value = If(largest_[i], dy_[2]);
      const Output saturation = g_.Mul(dy_[1], g_.Sub(If(largest_[i], g_.Mul(min_, g_.Mul(of_max, of_max))),
          If(And(smallest_[i], Op("Greater", channels_[i], zero_)), of_max)));
      dx.push_back(g_.Add(value, g_.Add(saturation, g_.Mul(dy_[0], Hue(i, of_range)))));
    }
    return g_.Op("Pack", dx, {{"axis", -1}});
  }

 private:
  Output Op(std::string_view name, Output x, Output y) { return g_.Op(name, {x, y}); }
  Output And(Output x, Output y) { return g_.Op("LogicalAnd", {x, y}); }
  Output If(Output condition, Output x) { return g_.Select(condition, x, g_.ZerosLike(x)); }

  // Of the hue with respect to channel i. Where channel m is the largest, the hue is (next - last) / (6 range), and so
  // much more by m, next and last being those after m.
  Output Hue(int i, Output of_range) {
    Output sum = g_.ZerosLike(max_);
    for (int m = 0; m < 3; ++m) {
      const int next = (m + 1) % 3, last = (m + 2) % 3;
      const Output difference = g_.Sub(channels_[next], channels_[last]);
      // Along the range: it grows with the largest, and shrinks with the smallest.
      const Output of_square = g_.Mul(g_.Mul(of_range, of_range), g_.Scalar(6, max_));
      const Output through_range = g_.Mul(difference, of_square);
      Output term = i == m ? g_.Neg(through_range) : If(smallest_[i], through_range);
      if (i == next) term = g_.Add(term, of_range);
      if (i == last) term = g_.Sub(term, of_range);
      sum = g_.Add(sum, If(largest_[m], term));
    }
    return sum;
  }

  GradientContext& g_;
  const Channels x_, dy_;
  const Output zero_, one_;
  Output channels_[3], largest_[3], smallest_[3], max_, min_;
};

void RgbGradient(GradientContext& g) { g.SetDx(0, HsvGradient(g).Gradient()); }

// (x - mean) * factor + mean, the mean of each image's channel.
void DecomposeContrast(DecomposeContext& d) {
  const Output x = d.input(0), given = d.Cast(d.input(1), d.type(x));
  const Output factor = d.shape(given).known_rank() ? given : d.Reshape(given, d.Vector({}));
  const Output mean = d.Op("Mean", {x, d.Vector({-3, -2})}, {{"keep_dims", true}});
  d.SetOutput(0, d.Add(d.Mul(d.Sub(x, mean), factor), mean));
}

}  // namespace

TENON_OP(kRgbToHsv) = DefineOp({
    .name = "RGBToHSV",
    .inputs = "images: T",
    .outputs = "output: T",
    .attrs = "T: {half, bfloat16, float, double} = float",
    .constraints = "rank(images) >= 1; dim(images, -1) == 3",
    .doc = "Red, green and blue in [0, 1] as hue, saturation and value.",
    .shape = ShapeFunction<ColorShape>,
    .gradient = GradientFunction<RgbGradient>,
});

TENON_OP(kHsvToRgb) = DefineOp({
    .name = "HSVToRGB",
    .inputs = "images: T",
    .outputs = "output: T",
    .attrs = "T: {half, bfloat16, float, double} = float",
    .constraints = "rank(images) >= 1; dim(images, -1) == 3",
    .doc = "Hue, saturation and value in [0, 1] as red, green and blue.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ColorShape>,
});

TENON_OP(kAdjustHue) = DefineOp({
    .name = "AdjustHue",
    .inputs = "images: T, delta: float",
    .outputs = "output: T",
    .attrs = "T: {half, float} = float",
    .constraints = "rank(images) >= 3; dim(images, -1) == 3; rank(delta) == 0",
    .doc = "Colours whose hue is turned by delta, of which 1 is all around.",
    .shape = ShapeFunction<AdjustShape>,
});

TENON_OP(kAdjustSaturation) = DefineOp({
    .name = "AdjustSaturation",
    .inputs = "images: T, scale: float",
    .outputs = "output: T",
    .attrs = "T: {half, float} = float",
    .constraints = "rank(images) >= 3; dim(images, -1) == 3; rank(scale) == 0",
    .doc = "Colours whose saturation is scale times as large, and no more than 1.",
    .shape = ShapeFunction<AdjustShape>,
});

TENON_OP(kAdjustContrastv2) = DefineOp({
    .name = "AdjustContrastv2",
    .inputs = "images: T, contrast_factor: float",
    .outputs = "output: T",
    .attrs = "T: {half, float} = float",
    .constraints = "rank(images) >= 3; rank(contrast_factor) == 0",
    .doc = "Each channel of an image contrast_factor times as far from its mean: (x - mean) * contrast_factor + mean.",
    .shape = ShapeFunction<AdjustShape>,
    .decompose = DecomposeFunction<DecomposeContrast>,
});

}  // namespace tenon::ops
