// SPDX-License-Identifier: Apache-2.0
// Quantization as training simulates it: each number goes to the nearest of 2^num_bits numbers from min to max, which
// are moved a little such that 0 is one of them. The ops are others in a row, and so on every device (Jacob and others,
// 2018).
#include <cmath>

#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr const char* kBits = "num_bits >= 2; num_bits <= 16";

// The integers that stand for min and max.
struct Steps {
  explicit Steps(NodeContext& c)
      : first(c.Bool("narrow_range") ? 1.0F : 0.0F),
        last(static_cast<float>((int64_t{1} << std::clamp<int64_t>(c.Int("num_bits"), 0, 62)) - 1)) {}
  float first, last;
};

// The numbers that there are: from low to high, `step` apart, 1 / step = inverse; zero: which of them 0 is.
struct Grid {
  Output step, inverse, low, high, zero;
};

// Where min and max are attributes.
Grid GridOfAttributes(DecomposeContext& d) {
  const Steps steps(d);
  const float min = d.Float("min"), max = d.Float("max");
  const float step = (max - min) / (steps.last - steps.first), inverse = (steps.last - steps.first) / (max - min);
  const float place = steps.first - min / step;
  const float nearest = place < steps.first ? steps.first : place > steps.last ? steps.last : std::round(place);
  const float low = (steps.first - nearest) * step;
  const auto constant = [&](float value) { return d.ScalarOf(static_cast<double>(value), TENON_DT_FLOAT); };
  return {constant(step), constant(inverse), constant(low), constant((steps.last - nearest) * step),
          constant(std::floor(-low * inverse + 0.5F))};
}

// Where they are tensors: scalars, or one number for each channel, which is the last dim.
Grid GridOf(DecomposeContext& d, Output min, Output max) {
  const Steps steps(d);
  const auto constant = [&](float value) { return d.ScalarOf(static_cast<double>(value), TENON_DT_FLOAT); };
  const Output first = constant(steps.first), last = constant(steps.last), range = d.Sub(max, min),
               length = constant(steps.last - steps.first), half = constant(0.5F);
  const Output step = d.Div(range, length), inverse = d.Div(length, range);
  const Output place = d.Op("Maximum", {d.Op("Minimum", {d.Sub(first, d.Div(min, step)), last}), first});
  const Output below = d.Op("Floor", {place});  // of halves the upper one is nearest
  const Output nearest = d.Add(below, d.Cast(d.Op("GreaterEqual", {d.Sub(place, below), half}), TENON_DT_FLOAT));
  const Output low = d.Mul(d.Sub(first, nearest), step);
  return {step, inverse, low, d.Mul(d.Sub(last, nearest), step),
          d.Op("Floor", {d.Add(d.Mul(d.Neg(low), inverse), half)})};
}

// What shape functions find too late, because shapes are not known before the step, the nodes find: a bound of another
// shape, or gradients.
Output Bound(DecomposeContext& d, Output bound, Output x, bool by_channel) {
  const Shape own = d.shape(bound), whole = d.shape(x);
  if (!by_channel) return own.known_rank() && own.rank() == 0 ? bound : d.Reshape(bound, d.Vector({}));
  if (own.rank() == 1 && whole.rank() > 0 && own[0] >= 0 && own[0] == whole[-1]) return bound;
  return d.Reshape(bound, d.VectorSlice(d.ShapeOf(x), -1));
}
Output OfShape(DecomposeContext& d, Output dy, Output x) {
  const Shape shape = d.shape(x);
  return shape.fully_known() && shape == d.shape(dy) ? dy : d.Op("AddN", {dy, d.ZerosLike(x)});
}

// x at the nearest number of the grid. As in TensorFlow scalars are divided by, attributes and channels multiplied with
// the inverse, which may round in another way.
Output Nearest(DecomposeContext& d, Output x, const Grid& grid, bool divide) {
  const Output inside = d.Sub(d.Op("Maximum", {d.Op("Minimum", {x, grid.high}), grid.low}), grid.low);
  const Output place = divide ? d.Div(inside, grid.step) : d.Mul(inside, grid.inverse);
  return d.Mul(d.Op("Floor", {d.Add(d.Sub(place, grid.zero), d.ScalarOf(0.5, TENON_DT_FLOAT))}), grid.step);
}

// TensorFlow has none of these gradients' own.
void NoGradient(GradientContext&) {}

// dy where x is within the grid, else 0.
Output Within(DecomposeContext& d, Output dy, Output x, const Grid& grid) {
  const Output within = d.Op("LogicalAnd", {d.Op("GreaterEqual", {x, grid.low}), d.Op("LessEqual", {x, grid.high})});
  return d.Mul(dy, d.Cast(within, TENON_DT_FLOAT));
}

// Where min and max are both 0 there is no grid.
Output BothZero(DecomposeContext& d, Output min, Output max) {
  const Output zero = d.ScalarOf(0, TENON_DT_FLOAT);
  return d.Op("LogicalAnd", {d.Op("Equal", {min, zero}), d.Op("Equal", {max, zero})});
}

std::vector<Attribute> Bits(NodeContext& c) {
  return {{"num_bits", c.Int("num_bits")}, {"narrow_range", c.Bool("narrow_range")}};
}

// ---- Bounds that are attributes ----

void CheckBounds(NodeContext& c) {
  const float min = c.Float("min"), max = c.Float("max");
  if (c.ok() && !(min < max)) c.Invalid("min has to be smaller than max, was: ", min, " >= ", max);
}

void ArgsShape(ShapeContext& c) {
  CheckBounds(c);
  c.SetOutput(0, c.Input(0));
}

void DecomposeArgs(DecomposeContext& d) { d.SetOutput(0, Nearest(d, d.input(0), GridOfAttributes(d), false)); }

void ArgsGradient(GradientContext& g) {
  std::vector<Attribute> attributes = Bits(g);
  attributes.emplace_back("min", g.Float("min"));
  attributes.emplace_back("max", g.Float("max"));
  g.SetDx(0, g.Op("FakeQuantWithMinMaxArgsGradient", {g.dy(0), g.input(0)}, attributes));
}

void ArgsGradientShape(ShapeContext& c) {
  CheckBounds(c);
  c.SetOutput(0, c.Merge(c.Input(0), c.Input(1), "the shapes of gradients and inputs"));
}

void DecomposeArgsGradient(DecomposeContext& d) {
  const Output x = d.input(1);
  d.SetOutput(0, Within(d, OfShape(d, d.input(0), x), x, GridOfAttributes(d)));
}

// ---- Bounds that are tensors ----

// Of the values in `inputs`, and min and max behind them.
Shape WithBounds(ShapeContext& c, Shape inputs, int min, bool by_channel) {
  if (!by_channel) {
    c.WithRank(min, 0);
    c.WithRank(min + 1, 0);
    return inputs;
  }
  if (inputs.known_rank() && inputs.rank() < 1) {
    c.Invalid("the input has no channels; its shape is ", inputs);
    return inputs;
  }
  const int64_t bounds = c.Merge(c.WithRank(min, 1)[0], c.WithRank(min + 1, 1)[0], "the lengths of min and max");
  if (inputs.known_rank()) inputs.Set(-1, c.Merge(inputs[-1], bounds, "the channels and the lengths of min and max"));
  return inputs;
}

template <bool kByChannel>
void VarsShape(ShapeContext& c) {
  c.SetOutput(0, WithBounds(c, c.Input(0), 1, kByChannel));
}

template <bool kByChannel>
void DecomposeVars(DecomposeContext& d) {
  const Output x = d.input(0), min = Bound(d, d.input(1), x, kByChannel), max = Bound(d, d.input(2), x, kByChannel);
  d.SetOutput(0, d.Select(BothZero(d, min, max), d.ScalarOf(0, TENON_DT_FLOAT),
                          Nearest(d, x, GridOf(d, min, max), !kByChannel)));
}

template <bool kByChannel>
void VarsGradient(GradientContext& g) {
  const int64_t node =
      g.Node(kByChannel ? "FakeQuantWithMinMaxVarsPerChannelGradient" : "FakeQuantWithMinMaxVarsGradient",
             {g.dy(0), g.input(0), g.input(1), g.input(2)}, Bits(g));
  for (int i = 0; i < 3; ++i) g.SetDx(i, {node, i, 0});
}

template <bool kByChannel>
void VarsGradientShape(ShapeContext& c) {
  const Shape inputs =
      WithBounds(c, c.Merge(c.Input(0), c.Input(1), "the shapes of gradients and inputs"), 2, kByChannel);
  Shape bounds = Shape::Scalar();
  if (kByChannel) {
    const int64_t length = c.Merge(c.WithRank(2, 1)[0], c.WithRank(3, 1)[0], "the lengths of min and max");
    bounds = Shape{length < 0 && inputs.known_rank() ? inputs[-1] : length};
  }
  c.SetOutput(0, inputs);
  c.SetOutput(1, bounds);
  c.SetOutput(2, bounds);
}

// The gradient of min is the sum over what lies below the grid, that of max over what lies above.
template <bool kByChannel>
void DecomposeVarsGradient(DecomposeContext& d) {
  const Output x = d.input(1), dy = OfShape(d, d.input(0), x), min = Bound(d, d.input(2), x, kByChannel),
               max = Bound(d, d.input(3), x, kByChannel);
  const Grid grid = GridOf(d, min, max);
  const Output none = BothZero(d, min, max);
  const Output repeated{d.Node("BroadcastGradientArgs", {d.ShapeOf(min), d.ShapeOf(x)}), 0, 0};
  const auto sum_where = [&](const char* comparison, Output bound) {
    const Output chosen = d.Mul(dy, d.Cast(d.Op(comparison, {x, bound}), TENON_DT_FLOAT));
    return d.Select(none, d.ScalarOf(0, TENON_DT_FLOAT), d.ReshapeLike(d.Sum(chosen, repeated), min));
  };
  d.SetOutput(0, d.Select(none, dy, Within(d, dy, x, grid)));
  d.SetOutput(1, sum_where("Less", grid.low));
  d.SetOutput(2, sum_where("Greater", grid.high));
}

}  // namespace

TENON_OP(kFakeQuantWithMinMaxArgs) = DefineOp({
    .name = "FakeQuantWithMinMaxArgs",
    .inputs = "inputs: float",
    .outputs = "outputs: float",
    .attrs = "min: float = -6; max: float = 6; num_bits: int = 8; narrow_range: bool = false",
    .constraints = kBits,
    .doc = "Each number at the nearest of 2^num_bits numbers from min to max, moved such that 0 is one of them.",
    .properties = "elementwise(inputs)",
    .shape = ShapeFunction<ArgsShape>,
    .gradient = GradientFunction<ArgsGradient>,
    .decompose = DecomposeFunction<DecomposeArgs>,
});

TENON_OP(kFakeQuantWithMinMaxArgsGradient) = DefineOp({
    .name = "FakeQuantWithMinMaxArgsGradient",
    .inputs = "gradients: float, inputs: float",
    .outputs = "backprops: float",
    .attrs = "min: float = -6; max: float = 6; num_bits: int = 8; narrow_range: bool = false",
    .constraints = kBits,
    .doc = "The gradient of FakeQuantWithMinMaxArgs: gradients where inputs lies within the bounds.",
    .properties = "elementwise",
    .shape = ShapeFunction<ArgsGradientShape>,
    .gradient = GradientFunction<NoGradient>,
    .decompose = DecomposeFunction<DecomposeArgsGradient>,
});

TENON_OP(kFakeQuantWithMinMaxVars) = DefineOp({
    .name = "FakeQuantWithMinMaxVars",
    .inputs = "inputs: float, min: float, max: float",
    .outputs = "outputs: float",
    .attrs = "num_bits: int = 8; narrow_range: bool = false",
    .constraints = "rank(min) == 0; rank(max) == 0; num_bits >= 2; num_bits <= 16",
    .doc = "FakeQuantWithMinMaxArgs with bounds that are tensors; 0 where both bounds are 0.",
    .properties = "elementwise(inputs)",
    .shape = ShapeFunction<VarsShape<false>>,
    .gradient = GradientFunction<VarsGradient<false>>,
    .decompose = DecomposeFunction<DecomposeVars<false>>,
});

TENON_OP(kFakeQuantWithMinMaxVarsGradient) = DefineOp({
    .name = "FakeQuantWithMinMaxVarsGradient",
    .inputs = "gradients: float, inputs: float, min: float, max: float",
    .outputs = "backprops_wrt_input: float, backprop_wrt_min: float, backprop_wrt_max: float",
    .attrs = "num_bits: int = 8; narrow_range: bool = false",
    .constraints = "rank(min) == 0; rank(max) == 0; num_bits >= 2; num_bits <= 16",
    .doc =
        "The gradients of FakeQuantWithMinMaxVars: what lies below the bounds belongs to min, what lies above to max.",
    .shape = ShapeFunction<VarsGradientShape<false>>,
    .gradient = GradientFunction<NoGradient>,
    .decompose = DecomposeFunction<DecomposeVarsGradient<false>>,
});

TENON_OP(kFakeQuantWithMinMaxVarsPerChannel) = DefineOp({
    .name = "FakeQuantWithMinMaxVarsPerChannel",
    .inputs = "inputs: float, min: float, max: float",
    .outputs = "outputs: float",
    .attrs = "num_bits: int = 8; narrow_range: bool = false",
    .constraints = "rank(inputs) >= 1; rank(min) == 1; rank(max) == 1; dim(min, 0) == dim(inputs, -1); dim(max, 0) == "
                   "dim(inputs, -1); "
                   "num_bits >= 2; num_bits <= 16",
    .doc = "FakeQuantWithMinMaxVars with bounds for each channel, the last dim.",
    .properties = "elementwise(inputs)",
    .shape = ShapeFunction<VarsShape<true>>,
    .gradient = GradientFunction<VarsGradient<true>>,
    .decompose = DecomposeFunction<DecomposeVars<true>>,
});

TENON_OP(kFakeQuantWithMinMaxVarsPerChannelGradient) = DefineOp({
    .name = "FakeQuantWithMinMaxVarsPerChannelGradient",
    .inputs = "gradients: float, inputs: float, min: float, max: float",
    .outputs = "backprops_wrt_input: float, backprop_wrt_min: float, backprop_wrt_max: float",
    .attrs = "num_bits: int = 8; narrow_range: bool = false",
    .constraints = "rank(inputs) >= 1; rank(min) == 1; rank(max) == 1; dim(min, 0) == dim(inputs, -1); dim(max, 0) == "
                   "dim(inputs, -1); "
                   "num_bits >= 2; num_bits <= 16",
    .doc = "The gradients of FakeQuantWithMinMaxVarsPerChannel.",
    .shape = ShapeFunction<VarsGradientShape<true>>,
    .gradient = GradientFunction<NoGradient>,
    .decompose = DecomposeFunction<DecomposeVarsGradient<true>>,
});

}  // namespace tenon::ops
