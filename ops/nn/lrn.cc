// SPDX-License-Identifier: Apache-2.0
// LRN: each channel divided by a power of the squares of its neighbours; and its gradient.
#include "window.h"

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr std::string_view kLrnAttrs =
    "depth_radius: int = 5; bias: float = 1; alpha: float = 1; beta: float = 0.5; T: {half, bfloat16, float} = float";

void LrnShape(ShapeContext& c) { c.SetOutput(0, c.WithRank(0, 4)); }
void LrnGradShape(ShapeContext& c) {
  const Shape shape = c.Merge(c.WithRank(0, 4), c.WithRank(1, 4), "the shapes of input_grads and input_image");
  c.SetOutput(0, c.Merge(shape, c.WithRank(2, 4), "the shapes of input_image and output_image"));
}
void LrnGradient(GradientContext& g) {
  g.SetDx(0, g.Op("LRNGrad", {g.dy(0), g.input(0), g.output(0)},
                  SameAttributes(g, {"depth_radius", "bias", "alpha", "beta"})));
}
void LrnCost(CostContext& c) {
  const double window = 2.0 * static_cast<double>(c.Int("depth_radius")) + 1;
  c.SetFlops((2 * window + 20) * CostContext::Elements(c.Output(0)));
}

}  // namespace

TENON_OP(kLRN) = DefineOp({
    .name = "LRN",
    .inputs = "input: T",
    .outputs = "output: T",
    .attrs = kLrnAttrs,
    .constraints = "rank(input) == 4; depth_radius >= 0",
    .doc = "x / (bias + alpha * the sum of the squares of the channels up to depth_radius away) ^ beta.",
    .properties = "normalizes(input), rows(input)",
    .shape = ShapeFunction<LrnShape>,
    .gradient = GradientFunction<LrnGradient>,
    .cost = CostFunction<LrnCost>,
});

TENON_OP(kLRNGrad) = DefineOp({
    .name = "LRNGrad",
    .inputs = "input_grads: T, input_image: T, output_image: T",
    .outputs = "output: T",
    .attrs = kLrnAttrs,
    .constraints = "rank(input_grads) == 4; rank(input_image) == 4; rank(output_image) == 4; depth_radius >= 0",
    .doc = "The gradient of LRN with respect to its input.",
    .shape = ShapeFunction<LrnGradShape>,
    .cost = CostFunction<LrnCost>,
});

}  // namespace tenon::ops
