// SPDX-License-Identifier: Apache-2.0
// BiasAdd and BiasAddGrad: one number for each channel.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static int ChannelDim(NodeContext& c) { return c.String("data_format") == "NCHW" ? 1 : -1; }

// With NCHW there must be something after the channels.
static Shape WithChannels(ShapeContext& c) { return c.WithRankAtLeast(0, ChannelDim(c) == 1 ? 3 : 2); }

static void BiasAddShape(ShapeContext& c) {
  Shape value = WithChannels(c);
  const Shape bias = c.WithRank(1, 1);
  const int channel = ChannelDim(c);
  if (value.known_rank()) value.Set(channel, c.Merge(value[channel], bias[0], "the channels of value and of bias"));
  c.SetOutput(0, value);
}

static void BiasAddGradient(GradientContext& g) {
  g.PassOn(0, 0);
  g.SetDx(1, g.Op("BiasAddGrad", {g.dy(0)}, {{"data_format", g.String("data_format")}}));
}

TENON_OP(kBiasAdd) = DefineOp({
    .name = "BiasAdd",
    .inputs = "value: T, bias: T",
    .outputs = "output: T",
    .attrs = "T: numbertype; data_format: {'NHWC', 'NCHW'} = 'NHWC'",
    .constraints = "rank(value) >= 2; rank(bias) == 1",
    .doc = "value with bias added to each channel: the last dim, or with NCHW dim 1.",
    .properties = "elementwise(value), fits_half",
    .shape = ShapeFunction<BiasAddShape>,
    .gradient = GradientFunction<BiasAddGradient>,
});

static void BiasAddGradShape(ShapeContext& c) { c.SetOutput(0, {WithChannels(c)[ChannelDim(c)]}); }

// gg repeated to the shape of out_backprop.
static void BiasAddGradGradient(GradientContext& g) {
  const Output dy = g.input(0);
  const Shape shape = g.shape(dy);
  const Output target = g.ShapeOf(dy);
  Output gg = g.dy(0);
  if (ChannelDim(g) == 1) {
    if (shape.known_rank()) {
      std::vector<int64_t> dims(static_cast<size_t>(std::max(shape.rank() - 1, 1)), 1);
      dims.front() = -1;
      gg = g.Reshape(gg, g.Vector(dims));
    } else {
      gg = g.Reshape(gg, g.Concat({g.Vector({-1}), g.Op("OnesLike", {g.VectorSlice(target, 2)})}));
    }
  }
  g.SetDx(0, g.Op("BroadcastTo", {gg, target}));
}

TENON_OP(kBiasAddGrad) = DefineOp({
    .name = "BiasAddGrad",
    .inputs = "out_backprop: T",
    .outputs = "output: T",
    .attrs = "T: numbertype; data_format: {'NHWC', 'NCHW'} = 'NHWC'",
    .constraints = "rank(out_backprop) >= 2",
    .doc = "The sum over all but the channels: the gradient of BiasAdd with respect to bias.",
    .shape = ShapeFunction<BiasAddGradShape>,
    .gradient = GradientFunction<BiasAddGradGradient>,
});

}  // namespace tenon::ops
