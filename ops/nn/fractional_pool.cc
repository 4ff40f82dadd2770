// SPDX-License-Identifier: Apache-2.0
// FractionalMaxPool, FractionalAvgPool and their gradient ops: poolings over regions whose sizes are drawn.
#include <array>
#include <cmath>

#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

// Four ratios, of which those of batch and channels are 1.
static std::array<float, 4> Ratios(NodeContext& c) {
  std::array<float, 4> ratios = {1, 1, 1, 1};
  const tenon_attr_value list = c.Raw("pooling_ratio");
  if (!c.ok()) return ratios;
  if (list.count != 4) {
    c.Invalid("attribute 'pooling_ratio' has ", list.count, " numbers; 4 are needed");
    return ratios;
  }
  for (size_t i = 0; i < 4; ++i) {
    ratios[i] = static_cast<const float*>(list.data)[i];
    if (!(ratios[i] >= 1)) c.Invalid("pooling_ratio cannot be smaller than 1, got: ", ratios[i]);
  }
  if (ratios[0] != 1 || ratios[3] != 1)
    c.Fail(TENON_UNIMPLEMENTED, "attribute 'pooling_ratio' must be 1 for the batch and the channels");
  return ratios;
}

static void PoolShape(ShapeContext& c) {
  const Shape input = c.WithRank(0, 4);
  const std::array<float, 4> ratios = Ratios(c);
  if (!c.ok()) return;
  Shape output = Shape::OfRank(4);
  for (int i = 0; i < 4; ++i) {
    const float ratio = ratios[static_cast<size_t>(i)];
    if (input[i] < 0) continue;
    output.Set(i, ratio == 1 ? input[i] : static_cast<int64_t>(std::floor(static_cast<float>(input[i]) / ratio)));
    if (output[i] == 0 && ratio != 1) {
      return c.Invalid("Pooling ratio is higher than input dimension size for dimension ", i,
                       ". Input dim size: ", input[i], " pooling ratio: ", ratio);
    }
  }
  c.SetOutput(0, output);
  c.SetOutput(1, {c.Add(output[1], 1)});
  c.SetOutput(2, {c.Add(output[2], 1)});
}

static constexpr std::string_view kPoolAttrs =
    "pooling_ratio: list(float) >= 4; pseudo_random: bool = false; overlapping: bool = false; deterministic: bool = "
    "false; seed: int = 0; seed2: int = 0; "
    "T: {float, double, int32, int64}";
static constexpr std::string_view kPoolOutputs = "output: T, row_pooling_sequence: int64, col_pooling_sequence: int64";

static void FractionalMaxGradient(GradientContext& g) {
  g.SetDx(0, g.Op("FractionalMaxPoolGrad", {g.input(0), g.output(0), g.dy(0), g.output(1), g.output(2)},
                  {{"overlapping", g.Bool("overlapping")}}));
}
static void FractionalAvgGradient(GradientContext& g) {
  g.SetDx(0, g.Op("FractionalAvgPoolGrad", {g.ShapeOf(g.input(0), TENON_DT_INT64), g.dy(0), g.output(1), g.output(2)},
                  {{"overlapping", g.Bool("overlapping")}}));
}

TENON_OP(kFractionalMaxPool) = DefineOp({
    .name = "FractionalMaxPool",
    .inputs = "value: T",
    .outputs = kPoolOutputs,
    .attrs = kPoolAttrs,
    .constraints = "rank(value) == 4",
    .doc = "The largest element of each region; rows and columns are cut into dim / pooling_ratio regions, whose first "
           "cells are the other outputs. "
           "overlapping: a region has the next one's first cell too. deterministic: the same regions in every step, by "
           "the seeds.",
    .properties = "draws",
    .traits = TENON_OP_NO_FOLD,
    .shape = ShapeFunction<PoolShape>,
    .gradient = GradientFunction<FractionalMaxGradient>,
});

TENON_OP(kFractionalAvgPool) = DefineOp({
    .name = "FractionalAvgPool",
    .inputs = "value: T",
    .outputs = kPoolOutputs,
    .attrs = kPoolAttrs,
    .constraints = "rank(value) == 4",
    .doc = "The mean of each region, as FractionalMaxPool draws them.",
    .properties = "draws",
    .traits = TENON_OP_NO_FOLD,
    .shape = ShapeFunction<PoolShape>,
    .gradient = GradientFunction<FractionalAvgGradient>,
});

static void FractionalMaxGradShape(ShapeContext& c) { c.SetOutput(0, c.WithRank(0, 4)); }
static void AvgPoolGradShape(ShapeContext& c) {
  const Shape input = c.InputAsShape(0);
  if (input.known_rank() && input.rank() != 4)
    return c.Invalid("orig_input_tensor_shape must have 4 numbers; it has ", input.rank());
  c.SetOutput(0, input.known_rank() ? input : Shape::OfRank(4));
}

TENON_OP(kFractionalMaxPoolGrad) = DefineOp({
    .name = "FractionalMaxPoolGrad",
    .inputs =
        "orig_input: T, orig_output: T, out_backprop: T, row_pooling_sequence: int64, col_pooling_sequence: int64",
    .outputs = "output: T",
    .attrs = "overlapping: bool = false; T: {float, double, int32, int64}",
    .constraints = "rank(orig_input) == 4; rank(orig_output) == 4; rank(out_backprop) == 4; rank(row_pooling_sequence) "
                   "== 1; rank(col_pooling_sequence) == 1",
    .doc = "The gradient of FractionalMaxPool: each region's goes to the first of its largest elements.",
    .shape = ShapeFunction<FractionalMaxGradShape>,
});

TENON_OP(kFractionalAvgPoolGrad) = DefineOp({
    .name = "FractionalAvgPoolGrad",
    .inputs =
        "orig_input_tensor_shape: int64, out_backprop: T, row_pooling_sequence: int64, col_pooling_sequence: int64",
    .outputs = "output: T",
    .attrs = "overlapping: bool = false; T: {float, double, int32, int64}",
    .constraints = "rank(orig_input_tensor_shape) == 1; dim(orig_input_tensor_shape, 0) == 4; "
                   "value(orig_input_tensor_shape) >= 0; "
                   "rank(out_backprop) == 4; rank(row_pooling_sequence) == 1; rank(col_pooling_sequence) == 1",
    .doc = "The gradient of FractionalAvgPool, in the shape orig_input_tensor_shape.",
    .shape = ShapeFunction<AvgPoolGradShape>,
});

}  // namespace tenon::ops
