// SPDX-License-Identifier: Apache-2.0
// Pixels moved between dims: to and from the batch (SpaceToBatchND), to and from the channels (SpaceToDepth).
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// block_shape is input 1, pairs before and after are input 2; the dims that they are about follow the batch.
template <bool kToBatch>
void BatchShape(ShapeContext& c) {
  const Shape blocks_shape = c.WithRank(1, 1), pairs_shape = c.WithRank(2, 2);
  const int64_t count = c.Merge(blocks_shape[0], pairs_shape[0], "the numbers of blocks and of pairs");
  c.Merge(pairs_shape[1], 2, "dim 1 of the pairs and 2");
  if (count < 0) return;
  const Shape input = c.WithRankAtLeast(0, static_cast<int>(count) + 1);
  const auto blocks = c.Integers(1), pairs = c.Integers(2);
  if (!input.known_rank() || !c.ok()) return;
  Shape out = input;
  int64_t product = blocks.has_value() ? 1 : kUnknown;
  for (int i = 0; i < count; ++i) {
    const auto k = static_cast<size_t>(i);
    out.Set(i + 1, kUnknown);
    const int64_t block = blocks.has_value() ? (*blocks)[k] : kUnknown;
    if (blocks.has_value() && block < 1) return c.Invalid("block_shape[", i, "] = ", block, " is not positive");
    product = c.Multiply(product, block);
    if (!pairs.has_value()) continue;
    const int64_t before = (*pairs)[2 * k], after = (*pairs)[2 * k + 1];
    if (before < 0 || after < 0) return c.Invalid("the pair ", before, ", ", after, " of dim ", i + 1, " is negative");
    if (block < 0 || input[i + 1] < 0) continue;
    if (kToBatch) {
      const int64_t padded = c.Add(c.Add(input[i + 1], before), after);
      if (padded % block != 0)
        return c.Invalid("dim ", i + 1, " is ", padded, " with its paddings, which ", block, " does not divide");
      out.Set(i + 1, padded / block);
    } else {
      const int64_t left = c.Multiply(input[i + 1], block) - before - after;
      if (left < 0) return c.Invalid("the crops ", before, " and ", after, " are more than dim ", i + 1, " has");
      out.Set(i + 1, left);
    }
  }
  if (kToBatch) {
    out.Set(0, c.Multiply(input[0], product));
  } else if (input[0] >= 0 && product > 0) {
    if (input[0] % product != 0)
      return c.Invalid("the batch ", input[0], " is not a multiple of the blocks' product ", product);
    out.Set(0, input[0] / product);
  } else {
    out.Set(0, kUnknown);
  }
  c.SetOutput(0, out);
}

void ToBatchGradient(GradientContext& g) { g.SetDx(0, g.Op("BatchToSpaceND", {g.dy(0), g.input(1), g.input(2)})); }
void FromBatchGradient(GradientContext& g) { g.SetDx(0, g.Op("SpaceToBatchND", {g.dy(0), g.input(1), g.input(2)})); }

template <bool kToDepth>
void DepthShape(ShapeContext& c) {
  const std::string_view format = c.String("data_format");
  const int64_t block = c.Int("block_size");
  if (format == "NCHW_VECT_C") {
    const Shape input = c.WithRank(0, 5);
    c.Merge(input[4], 4, "dim 4 of NCHW_VECT_C and 4");
    return c.SetOutput(0, Shape::OfRank(5));
  }
  Shape out = c.WithRank(0, 4);
  const int height = format == "NCHW" ? 2 : 1, channels = format == "NCHW" ? 1 : 3;
  const int64_t square = c.Multiply(block, block);
  const auto divided = [&](int64_t dim, int64_t by) {
    if (dim >= 0 && dim % by != 0) c.Invalid("the dim ", dim, " of ", c.Input(0), " is not a multiple of ", by);
    return c.Divide(dim, by);
  };
  for (int i = height; i < height + 2; ++i) out.Set(i, kToDepth ? divided(out[i], block) : c.Multiply(out[i], block));
  out.Set(channels, kToDepth ? c.Multiply(out[channels], square) : divided(out[channels], square));
  c.SetOutput(0, out);
}

void OppositeGradient(GradientContext& g, std::string_view op) {
  g.SetDx(0, g.Op(op, {g.dy(0)}, {{"block_size", g.Int("block_size")}, {"data_format", g.String("data_format")}}));
}
void ToDepthGradient(GradientContext& g) { OppositeGradient(g, "DepthToSpace"); }
void FromDepthGradient(GradientContext& g) { OppositeGradient(g, "SpaceToDepth"); }

consteval tenon_op_definition Depth(OpDefinition op) {
  op.properties = "moves(input)";
  op.inputs = "input: T";
  op.outputs = "output: T";
  op.attrs = "T: type; block_size: int >= 2; data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'";
  return DefineOp(op);
}

}  // namespace

TENON_OP(kSpaceToBatchND) = DefineOp({
    .name = "SpaceToBatchND",
    .inputs = "input: T, block_shape: Tblock_shape, paddings: Tpaddings",
    .outputs = "output: T",
    .attrs = "T: type; Tblock_shape: {int32, int64} = int32; Tpaddings: {int32, int64} = int32",
    .constraints = "rank(block_shape) == 1; value(block_shape) >= 1; rank(paddings) == 2; dim(paddings, 1) == 2; "
                   "dim(paddings, 0) == dim(block_shape, 0); value(paddings) >= 0",
    .doc = "Pads the dims after the batch with zeros, and moves each place in a block to a batch of its own.",
    .properties = "moves(input)",
    .shape = ShapeFunction<BatchShape<true>>,
    .gradient = GradientFunction<ToBatchGradient>,
});

TENON_OP(kBatchToSpaceND) = DefineOp({
    .name = "BatchToSpaceND",
    .inputs = "input: T, block_shape: Tblock_shape, crops: Tcrops",
    .outputs = "output: T",
    .attrs = "T: type; Tblock_shape: {int32, int64} = int32; Tcrops: {int32, int64} = int32",
    .constraints = "rank(block_shape) == 1; value(block_shape) >= 1; rank(crops) == 2; dim(crops, 1) == 2; "
                   "dim(crops, 0) == dim(block_shape, 0); value(crops) >= 0",
    .doc = "Puts batches back to the places in blocks that SpaceToBatchND took them from, and cuts the borders off.",
    .properties = "moves(input)",
    .shape = ShapeFunction<BatchShape<false>>,
    .gradient = GradientFunction<FromBatchGradient>,
});

TENON_OP(kSpaceToDepth) = Depth({
    .name = "SpaceToDepth",
    .doc = "The pixels of each block one after the other as the channels of one pixel.",
    .shape = ShapeFunction<DepthShape<true>>,
    .gradient = GradientFunction<ToDepthGradient>,
});

TENON_OP(kDepthToSpace) = Depth({
    .name = "DepthToSpace",
    .doc = "The channels of each pixel as the pixels of a block.",
    .shape = ShapeFunction<DepthShape<false>>,
    .gradient = GradientFunction<FromDepthGradient>,
});

}  // namespace tenon::ops
