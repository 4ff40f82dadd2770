// SPDX-License-Identifier: Apache-2.0
// Batch normalisation, in three versions that differ in types, layouts and what they hand to their gradient.
//
// Training takes mean and variance of each channel from x itself; inference takes those that it is given.
#include "window.h"

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr std::string_view kInputs = "x: T, scale: U, offset: U, mean: U, variance: U";
constexpr std::string_view kConstraints = "rank(scale) == 1; rank(offset) == 1; rank(mean) == 1; rank(variance) == 1";
constexpr std::string_view kDoc =
    "x with mean 0 and variance 1 in each channel, times scale, plus offset; and the mean and the variance.";
constexpr std::string_view kGradDoc = "The gradients of batch normalisation with respect to x, scale and offset.";

struct Layout {
  int rank = 4;
  int channel = 3;
};
Layout LayoutOfNode(NodeContext& c) {
  const std::string_view format = c.String("data_format");
  const int rank = static_cast<int>(format.size());
  return {rank, format.substr(0, 2) == "NC" ? 1 : rank - 1};
}

// The averages that training does not read may be empty.
int64_t Channels(ShapeContext& c, int64_t channels, bool reads_averages, std::initializer_list<int> vectors) {
  for (int i : vectors) {
    const Shape vector = c.WithRank(i, 1);
    if (i < 3 || reads_averages)
      channels = c.Merge(channels, vector[0], "the channels of x and of its scale, offset, mean and variance");
  }
  return channels;
}

void BatchNormGradShape(ShapeContext& c) {
  const Layout layout = LayoutOfNode(c);
  Shape x = c.Merge(c.WithRank(0, layout.rank), c.WithRank(1, layout.rank), "the shapes of y_backprop and x");
  int64_t channels = x[layout.channel];
  for (int i = 2; i < 5; ++i) channels = c.Merge(channels, c.WithRank(i, 1)[0], "the channels of x and of its vectors");
  x.Set(layout.channel, channels);
  c.SetOutput(0, x);
  c.SetOutput(1, {channels});
  c.SetOutput(2, {channels});
  c.SetOutput(3, {0});
  c.SetOutput(4, {0});
}

// Channels moved to the end, or back from there.
Output MoveChannels(GradientContext& g, Output x, int rank, bool to_the_end) {
  std::vector<int64_t> order = {0};
  if (!to_the_end) order.push_back(rank - 1);
  for (int i = to_the_end ? 2 : 1; i < rank - (to_the_end ? 0 : 1); ++i) order.push_back(i);
  if (to_the_end) order.push_back(1);
  return g.Op("Transpose", {x, g.Vector(order)});
}

// The gradient in inference has channels last alone.
template <int kVersion>
void BatchNormGradient(GradientContext& g) {
  constexpr std::string_view kOps[] = {"FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3"};
  const bool training = g.Bool("is_training");
  const Layout layout = LayoutOfNode(g);
  const bool moved = !training && layout.channel == 1;
  const auto channels_last = [&](Output x) { return moved ? MoveChannels(g, x, layout.rank, true) : x; };
  const Output scale = kVersion == 1 ? g.input(1) : g.Cast(g.input(1), TENON_DT_FLOAT);
  std::vector<Output> inputs = {channels_last(g.dy(0)), channels_last(g.input(0)), scale,
                                training ? g.output(3) : g.input(3), training ? g.output(4) : g.input(4)};
  if (kVersion == 3) inputs.push_back(g.output(5));
  std::vector<Attribute> attributes = SameAttributes(g, {"epsilon", "is_training"});
  attributes.emplace_back("data_format", moved ? (layout.rank == 5 ? "NDHWC" : "NHWC") : g.String("data_format"));
  const int64_t node = g.Node(kOps[kVersion - 1], inputs, attributes);
  for (int i = 1; i < 3; ++i) g.SetDx(i, {node, i, 0});
  g.SetDx(0, moved ? MoveChannels(g, {node, 0, 0}, layout.rank, false) : Output{node, 0, 0});
}

// Second order. With r = rsqrt(variance + epsilon), n = (x - mean) r and the projection P(v) = v - mean(v) - n mean(n
// v), which is symmetric, the node's outputs are
//   dx = scale r P(dy),  dscale = sum(dy n),  doffset = sum(dy).
// In inference mean and variance are constants, and P(v) = v.
class SecondOrder {
 public:
  explicit SecondOrder(GradientContext& g)
      : g_(g),
        layout_(LayoutOfNode(g)),
        training_(g.Bool("is_training")),
        dy_(AsFloat(g.input(0))),
        x_(AsFloat(g.input(1))) {
    std::vector<int64_t> axes;
    for (int i = 0; i < layout_.rank; ++i) {
      if (i != layout_.channel) axes.push_back(i);
    }
    axes_ = g.Vector(axes);
    scale_ = PerChannel(g.input(2));
    const Output mean = training_ ? Mean(x_) : PerChannel(g.input(3));
    const Output variance = training_ ? Mean(g.Op("SquaredDifference", {x_, mean})) : PerChannel(g.input(4));
    r_ = g.Op("Rsqrt", {g.Add(variance, g.ScalarOf(g.Float("epsilon"), TENON_DT_FLOAT))});
    n_ = g.Mul(g.Sub(x_, mean), r_);
  }

  void Set() {
    const uint32_t dtype = g_.type(g_.input(0));
    const Output scale_r = g_.Mul(scale_, r_);
    std::vector<Output> to_dy, to_x;
    if (g_.has_dy(0)) {
      const Output u = AsFloat(g_.dy(0));
      const Output pu = Project(u);
      to_dy.push_back(g_.Mul(scale_r, pu));
      const Output u_pdy = training_ ? g_.Mul(u, Project(dy_)) : g_.Mul(u, dy_);
      g_.SetDx(2, g_.Reshape(g_.Mul(r_, g_.Sum(u_pdy, axes_, true)), g_.Vector({-1})));
      if (training_) {
        const Output through_n = g_.Add(g_.Mul(u, Mean(g_.Mul(dy_, n_))), g_.Mul(dy_, Mean(g_.Mul(u, n_))));
        const Output through_r = g_.Mul(n_, Mean(u_pdy));
        to_x.push_back(g_.Neg(g_.Mul(g_.Mul(scale_r, r_), g_.Add(Project(through_n), through_r))));
      }
    }
    if (g_.has_dy(1)) {
      const Output u = PerChannel(g_.dy(1));
      to_dy.push_back(g_.Mul(u, n_));
      to_x.push_back(g_.Mul(r_, Project(g_.Mul(u, dy_))));
    }
    if (g_.has_dy(2)) to_dy.push_back(g_.Add(PerChannel(g_.dy(2)), g_.ZerosLike(dy_)));
    SetSum(0, to_dy, dtype);
    SetSum(1, to_x, dtype);
  }

 private:
  Output AsFloat(Output x) { return g_.Cast(x, TENON_DT_FLOAT); }
  Output Mean(Output x) { return g_.Op("Mean", {x, axes_}, {{"keep_dims", true}}); }
  Output Project(Output v) {
    if (!training_) return v;
    return g_.Sub(g_.Sub(v, Mean(v)), g_.Mul(n_, Mean(g_.Mul(n_, v))));
  }
  // A vector of channels so that it broadcasts against x.
  Output PerChannel(Output vector) {
    const Output floats = AsFloat(vector);
    if (layout_.channel == layout_.rank - 1) return floats;
    std::vector<int64_t> dims(static_cast<size_t>(layout_.rank), 1);
    dims[static_cast<size_t>(layout_.channel)] = -1;
    return g_.Reshape(floats, g_.Vector(dims));
  }
  void SetSum(int index, const std::vector<Output>& parts, uint32_t dtype) {
    if (parts.empty()) return g_.SetZero(index);
    Output sum = parts.front();
    for (size_t i = 1; i < parts.size(); ++i) sum = g_.Add(sum, parts[i]);
    g_.SetDx(index, g_.Cast(sum, dtype));
  }

  GradientContext& g_;
  Layout layout_;
  bool training_;
  Output dy_, x_, axes_{}, scale_{}, r_{}, n_{};
};

void BatchNormGradGradient(GradientContext& g) { SecondOrder(g).Set(); }

// Two passes over x, and one that writes it.
void BatchNormCost(CostContext& c) { c.SetFlops(8.0 * CostContext::Elements(c.Input(0))); }

consteval tenon_op_definition BatchNorm(OpDefinition op, tenon_gradient_function gradient) {
  op.constraints = kConstraints;
  op.doc = kDoc;
  if (op.properties.empty()) op.properties = "normalizes(x), fits_half";
  op.shape = ShapeFunction<BatchNormShape>;
  op.gradient = gradient;
  op.cost = CostFunction<BatchNormCost>;
  return DefineOp(op);
}
consteval tenon_op_definition BatchNormGrad(OpDefinition op) {
  op.constraints = "rank(scale) == 1; rank(reserve_space_1) == 1; rank(reserve_space_2) == 1";
  op.doc = kGradDoc;
  if (op.properties.empty()) op.properties = "normalizes(y_backprop, x), fits_half";
  op.shape = ShapeFunction<BatchNormGradShape>;
  op.gradient = GradientFunction<BatchNormGradGradient>;
  op.cost = CostFunction<BatchNormCost>;
  return DefineOp(op);
}

}  // namespace

void BatchNormShape(ShapeContext& c) {
  const Layout layout = LayoutOfNode(c);
  Shape x = c.WithRank(0, layout.rank);
  const bool reads_averages = !c.Bool("is_training") || c.Float("exponential_avg_factor") != 1.0f;
  const int64_t channels = Channels(c, x[layout.channel], reads_averages, {1, 2, 3, 4});
  x.Set(layout.channel, channels);
  c.SetOutput(0, x);
  for (int i = 1; i < 5; ++i) c.SetOutput(i, {channels});
  if (c.output_count() > 5) c.SetOutput(5, Shape::Scalar());
}

TENON_OP(kFusedBatchNorm) = BatchNorm(
    {.name = "FusedBatchNorm",
     .inputs = "x: T, scale: T, offset: T, mean: T, variance: T",
     .outputs = "y: T, batch_mean: T, batch_variance: T, reserve_space_1: T, reserve_space_2: T",
     .attrs = "T: {float}; epsilon: float = 0.0001; exponential_avg_factor: float = 1; "
              "data_format: {'NHWC', 'NCHW'} = 'NHWC'; is_training: bool = true",
     .properties = "normalizes(x)"},
    GradientFunction<BatchNormGradient<1>>);

TENON_OP(kFusedBatchNormV2) = BatchNorm(
    {.name = "FusedBatchNormV2",
     .inputs = kInputs,
     .outputs = "y: T, batch_mean: U, batch_variance: U, reserve_space_1: U, reserve_space_2: U",
     .attrs = "T: {half, bfloat16, float}; U: {float}; epsilon: float = 0.0001; exponential_avg_factor: float = 1; "
              "data_format: {'NHWC', 'NCHW'} = 'NHWC'; is_training: bool = true"},
    GradientFunction<BatchNormGradient<2>>);

TENON_OP(kFusedBatchNormV3) = BatchNorm(
    {.name = "FusedBatchNormV3",
     .inputs = kInputs,
     .outputs = "y: T, batch_mean: U, batch_variance: U, reserve_space_1: U, reserve_space_2: U, reserve_space_3: U",
     .attrs = "T: {half, bfloat16, float}; U: {bfloat16, float}; epsilon: float = 0.0001; exponential_avg_factor: "
              "float = 1; "
              "data_format: {'NHWC', 'NCHW', 'NDHWC', 'NCDHW'} = 'NHWC'; is_training: bool = true"},
    GradientFunction<BatchNormGradient<3>>);

TENON_OP(kFusedBatchNormGrad) = BatchNormGrad({
    .name = "FusedBatchNormGrad",
    .inputs = "y_backprop: T, x: T, scale: T, reserve_space_1: T, reserve_space_2: T",
    .outputs = "x_backprop: T, scale_backprop: T, offset_backprop: T, reserve_space_3: T, reserve_space_4: T",
    .attrs = "T: {float}; epsilon: float = 0.0001; data_format: {'NHWC', 'NCHW'} = 'NHWC'; is_training: bool = true",
    .properties = "normalizes(y_backprop, x)",
});

TENON_OP(kFusedBatchNormGradV2) = BatchNormGrad({
    .name = "FusedBatchNormGradV2",
    .inputs = "y_backprop: T, x: T, scale: float, reserve_space_1: U, reserve_space_2: U",
    .outputs = "x_backprop: T, scale_backprop: U, offset_backprop: U, reserve_space_3: U, reserve_space_4: U",
    .attrs = "T: {half, bfloat16, float}; U: {float}; epsilon: float = 0.0001; data_format: {'NHWC', 'NCHW'} = 'NHWC'; "
             "is_training: bool = true",
});

TENON_OP(kFusedBatchNormGradV3) = BatchNormGrad({
    .name = "FusedBatchNormGradV3",
    .inputs = "y_backprop: T, x: T, scale: float, reserve_space_1: U, reserve_space_2: U, reserve_space_3: U",
    .outputs = "x_backprop: T, scale_backprop: U, offset_backprop: U, reserve_space_4: U, reserve_space_5: U",
    .attrs = "T: {half, bfloat16, float}; U: {float}; epsilon: float = 0.0001; "
             "data_format: {'NHWC', 'NCHW', 'NDHWC', 'NCDHW'} = 'NHWC'; is_training: bool = true",
});

}  // namespace tenon::ops
