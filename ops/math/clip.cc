// SPDX-License-Identifier: Apache-2.0
// Numbers kept within bounds.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void ClipShape(ShapeContext& c) {
  Shape shape = c.Input(0);
  for (int i = 1; i < 3; ++i) {
    const Shape bound = c.Input(i);
    if (bound.known_rank() && bound.rank() > 0)
      shape = c.Merge(shape, bound, "the shapes of t and of a bound that is no scalar");
  }
  c.SetOutput(0, c.Input(0).known_rank() ? shape : Shape());
}

// What is beyond a bound has no gradient; the bound has it.
static void ClipGradient(GradientContext& g) {
  const Output x = g.input(0), low = g.input(1), high = g.input(2), dy = g.dy(0), zero = g.Scalar(0, dy);
  const Output below = g.Op("Less", {x, low}), above = g.Op("Greater", {x, high});
  g.SetDx(0, g.Select(g.Op("LogicalOr", {below, above}), zero, dy));
  g.SetDx(1, g.Unbroadcast(g.Select(below, dy, zero), low, x));
  g.SetDx(2, g.Unbroadcast(g.Select(above, dy, zero), high, x));
}

TENON_OP(kClipByValue) = DefineOp({
    .name = "ClipByValue",
    .inputs = "t: T, clip_value_min: T, clip_value_max: T",
    .outputs = "output: T",
    .attrs = "T: numbertype",
    .doc = "t, but no less than clip_value_min and no more than clip_value_max, which are scalars or of t's shape. "
           "clip_value_min counts where it is the larger.",
    .properties = "elementwise, broadcasts, exact, computes(clip(t, clip_value_min, clip_value_max))",
    .shape = ShapeFunction<ClipShape>,
    .gradient = GradientFunction<ClipGradient>,
});

}  // namespace tenon::ops
