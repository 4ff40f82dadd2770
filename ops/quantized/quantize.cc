// SPDX-License-Identifier: Apache-2.0
// Real numbers as quantized ones, back, and both at once, which is how training bears the loss.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// Inputs min and min + 1 are bounds: scalars, or with an axis one number for each of its places. Gives their shape.
Shape BoundsOf(ShapeContext& c, int min) {
  const int64_t axis = c.Int("axis");
  if (!c.ok()) return Shape();
  if (axis < -1) {
    c.Invalid("axis should be at least -1, got ", axis);
    return Shape();
  }
  const Shape low = c.WithRank(min, axis == -1 ? 0 : 1), high = c.WithRank(min + 1, axis == -1 ? 0 : 1);
  if (axis == -1 || !c.ok()) return low;
  if (axis >= TENON_MAX_RANK) {
    c.Invalid("axis ", axis, " is larger than the ranks that there are");
    return low;
  }
  const Shape input = c.WithRankAtLeast(min - 1, static_cast<int>(axis) + 1);
  const int64_t places = input.known_rank() ? input[static_cast<int>(axis)] : kUnknown;
  return {c.Merge(c.Merge(low[0], high[0], "the lengths of minimum and maximum"), places,
                  "the bounds' length and the dim along the axis")};
}

void QuantizeShape(ShapeContext& c) {
  const Shape bounds = BoundsOf(c, 1);
  c.SetOutput(0, c.Input(0));
  c.SetOutput(1, bounds);
  c.SetOutput(2, bounds);
}

void ElementwiseShape(ShapeContext& c) {
  BoundsOf(c, 1);
  c.SetOutput(0, c.Input(0));
}

void BitsAsInputShape(ShapeContext& c) {
  c.WithRank(3, 0);
  ElementwiseShape(c);
}

// Whatever was rounded, the gradient of input is that of output.
void StraightThrough(GradientContext& g) { g.PassOn(0, 0); }

void WithinBoundsGradient(GradientContext& g) {
  const int64_t node =
      g.Node("QuantizeAndDequantizeV4Grad", {g.dy(0), g.input(0), g.input(1), g.input(2)}, {{"axis", g.Int("axis")}});
  for (int i = 0; i < 3; ++i) g.SetDx(i, {node, i, 0});
}

void WithinBoundsShape(ShapeContext& c) {
  const Shape bounds = BoundsOf(c, 2);
  c.SetOutput(0, c.Merge(c.Input(0), c.Input(1), "the shapes of gradients and input"));
  c.SetOutput(1, bounds);
  c.SetOutput(2, bounds);
}

// The gradient of gradients goes the same way; the others change nothing.
void WithinBoundsGradientGradient(GradientContext& g) {
  const int64_t node =
      g.Node("QuantizeAndDequantizeV4Grad", {g.dy(0), g.input(1), g.input(2), g.input(3)}, {{"axis", g.Int("axis")}});
  g.SetDx(0, {node, 0, 0});
  for (int i = 1; i < 4; ++i) g.SetZero(i);
}

}  // namespace

TENON_OP(kQuantizeV2) = DefineOp({
    .name = "QuantizeV2",
    .inputs = "input: float, min_range: float, max_range: float",
    .outputs = "output: T, output_min: float, output_max: float",
    .attrs = "T: quantizedtype; mode: {'MIN_COMBINED', 'MIN_FIRST', 'SCALED'} = 'MIN_COMBINED'; "
             "round_mode: {'HALF_AWAY_FROM_ZERO', 'HALF_TO_EVEN'} = 'HALF_AWAY_FROM_ZERO'; narrow_range: bool = false; "
             "axis: int = -1; "
             "ensure_minimum_range: float = 0.01",
    .doc = "input as integers, of which the least stands for output_min and the largest for output_max: the given "
           "range, widened such that 0 is in "
           "it and such that its ends are a little apart; in the mode SCALED such that 0 is the integer 0. With an "
           "axis each of its places has "
           "bounds of its own.",
    .shape = ShapeFunction<QuantizeShape>,
});

TENON_OP(kDequantize) = DefineOp({
    .name = "Dequantize",
    .inputs = "input: T, min_range: float, max_range: float",
    .outputs = "output: dtype",
    .attrs = "T: quantizedtype; mode: {'MIN_COMBINED', 'MIN_FIRST', 'SCALED'} = 'MIN_COMBINED'; narrow_range: bool = "
             "false; axis: int = -1; "
             "dtype: {bfloat16, float} = float",
    .doc = "The real numbers that the integers stand for, by the mode that QuantizeV2 made them in.",
    .shape = ShapeFunction<ElementwiseShape>,
});

TENON_OP(kQuantizeAndDequantizeV2) = DefineOp({
    .name = "QuantizeAndDequantizeV2",
    .inputs = "input: T, input_min: T, input_max: T",
    .outputs = "output: T",
    .attrs =
        "signed_input: bool = true; num_bits: int = 8; range_given: bool = false; T: {bfloat16, half, float, double}; "
        "round_mode: {'HALF_TO_EVEN', 'HALF_UP'} = 'HALF_TO_EVEN'; narrow_range: bool = false; axis: int = -1",
    .doc = "input with what num_bits of it lose: each number at the nearest multiple of a unit, which is as small as "
           "the range lets it be; the range "
           "is given, or that of input.",
    .shape = ShapeFunction<ElementwiseShape>,
    .gradient = GradientFunction<StraightThrough>,
});

TENON_OP(kQuantizeAndDequantizeV3) = DefineOp({
    .name = "QuantizeAndDequantizeV3",
    .inputs = "input: T, input_min: T, input_max: T, num_bits: int32",
    .outputs = "output: T",
    .attrs = "signed_input: bool = true; range_given: bool = true; T: {bfloat16, half, float, double}; narrow_range: "
             "bool = false; axis: int = -1",
    .constraints = "rank(num_bits) == 0",
    .doc = "QuantizeAndDequantizeV2 with a number of bits that is a tensor; halves are rounded to the even integer.",
    .shape = ShapeFunction<BitsAsInputShape>,
    .gradient = GradientFunction<StraightThrough>,
});

TENON_OP(kQuantizeAndDequantizeV4) = DefineOp({
    .name = "QuantizeAndDequantizeV4",
    .inputs = "input: T, input_min: T, input_max: T",
    .outputs = "output: T",
    .attrs =
        "signed_input: bool = true; num_bits: int = 8; range_given: bool = false; T: {bfloat16, half, float, double}; "
        "round_mode: {'HALF_TO_EVEN', 'HALF_UP'} = 'HALF_TO_EVEN'; narrow_range: bool = false; axis: int = -1",
    .doc = "QuantizeAndDequantizeV2 with the gradient of clipping: what lies outside of the given range has none.",
    .shape = ShapeFunction<ElementwiseShape>,
    .gradient = GradientFunction<WithinBoundsGradient>,
});

TENON_OP(kQuantizeAndDequantizeV4Grad) = DefineOp({
    .name = "QuantizeAndDequantizeV4Grad",
    .inputs = "gradients: T, input: T, input_min: T, input_max: T",
    .outputs = "input_backprop: T, input_min_backprop: T, input_max_backprop: T",
    .attrs = "T: {bfloat16, half, float, double}; axis: int = -1",
    .doc = "The gradients of QuantizeAndDequantizeV4: gradients where input lies within the range; the range has none.",
    .shape = ShapeFunction<WithinBoundsShape>,
    .gradient = GradientFunction<WithinBoundsGradientGradient>,
});

}  // namespace tenon::ops
