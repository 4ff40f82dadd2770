// SPDX-License-Identifier: Apache-2.0
// Reductions along axes: Sum, Mean, Max, Min, Prod, All, Any, ArgMax, ArgMin.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void ReduceShape(ShapeContext& c) {
  const Shape input = c.Input(0);
  const Shape axes_shape = c.WithRankAtMost(1, 1);
  const bool keep_dims = c.Bool("keep_dims");
  if (!input.known_rank()) return;
  const auto axes = c.Integers(1);
  if (!axes.has_value()) {
    if (axes_shape.rank() == 1 && axes_shape[0] == 0) return c.SetOutput(0, input);
    if (keep_dims) return c.SetOutput(0, Shape::OfRank(input.rank()));
    // Every axis may stand there once, so their number says the rank.
    const int64_t count = axes_shape.rank() == 0 ? 1 : axes_shape[0];
    if (count > input.rank()) {
      return c.Invalid(count, " axes for a tensor of shape ", input);
    }
    if (count >= 0) c.SetOutput(0, Shape::OfRank(input.rank() - static_cast<int>(count)));
    return;
  }
  std::vector<bool> reduced(static_cast<size_t>(input.rank()), false);
  for (int64_t value : *axes) {
    const auto axis = c.CheckAxis(value, input.rank());
    if (!axis.has_value()) return;
    if (reduced[static_cast<size_t>(*axis)]) return c.Invalid("axis ", *axis, " stands twice in ", *axes);
    reduced[static_cast<size_t>(*axis)] = true;
  }
  Shape out = Shape::Scalar();
  for (int i = 0; i < input.rank(); ++i) {
    if (!reduced[static_cast<size_t>(i)]) {
      out.Append(input[i]);
    } else if (keep_dims) {
      out.Append(1);
    }
  }
  c.SetOutput(0, out);
}

namespace {

consteval tenon_op_definition Reduction(OpDefinition op) {
  op.inputs = op.inputs.empty() ? "input: T, reduction_indices: Tidx" : op.inputs;
  op.outputs = op.outputs.empty() ? "output: T" : op.outputs;
  op.constraints =
      "rank(reduction_indices) <= 1; value(reduction_indices) >= -rank(input); value(reduction_indices) < rank(input)";
  if (op.shape == nullptr) op.shape = ShapeFunction<ReduceShape>;
  return DefineOp(op);
}

constexpr std::string_view kNumberAttrs = "keep_dims: bool = false; T: numbertype; Tidx: {int32, int64} = int32";
constexpr std::string_view kOrderedAttrs =
    "keep_dims: bool = false; T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, "
    "uint64, qint8, quint8, qint32, qint16, quint16}; Tidx: {int32, int64} = int32";
constexpr std::string_view kBoolAttrs = "keep_dims: bool = false; Tidx: {int32, int64} = int32";

// The axes, sorted and counted from the front, when they and the input's rank are known.
std::optional<std::vector<int64_t>> KnownAxes(GradientContext& g) {
  const int rank = g.shape(g.input(0)).rank();
  auto axes = g.Integers(g.input(1));
  if (rank < 0 || !axes.has_value()) return std::nullopt;
  for (int64_t& axis : *axes) {
    if (axis < 0) axis += rank;
  }
  std::sort(axes->begin(), axes->end());
  return axes;
}

// The input's shape with 1 for each reduced dim, found when the graph runs.
Output KeptShape(GradientContext& g) {
  const Output shape = g.ShapeOf(g.input(0));
  const Output rank = g.Op("Size", {shape});
  const Output axes = g.Reshape(g.Cast(g.input(1), TENON_DT_INT32), g.Vector({-1}));
  // A scalar has no axes to count from the front, and nothing may be divided by its rank.
  const Output from_front = g.Op("FloorMod", {axes, g.Op("Maximum", {rank, g.Number(1)})});
  const Output all = g.Op("Range", {g.Number(0), rank, g.Number(1)});
  return g.Op("DynamicStitch", {all, from_front, shape, g.Op("OnesLike", {from_front})}, {{"N", 2}});
}

// x, which has the output's shape, with the reduced dims as 1, so that it broadcasts against the input.
Output KeepDims(GradientContext& g, Output x) {
  const Shape input = g.shape(g.input(0)), output = g.shape(g.output(0));
  if (g.Bool("keep_dims") || output.rank() == 0) return x;
  const auto axes = KnownAxes(g);
  if (!axes.has_value()) return g.Reshape(x, KeptShape(g));
  if (axes->empty()) return x;
  Shape kept = input;
  for (int64_t axis : *axes) kept.Set(static_cast<int>(axis), 1);
  if (axes->size() > 1 && kept.fully_known()) return g.Reshape(x, g.Vector(kept.dims()));
  for (int64_t axis : *axes) x = g.ExpandDims(x, axis);
  return x;
}

}  // namespace

// dy repeated along the reduced axes.
static Output Spread(GradientContext& g, Output dy) {
  return g.Op("BroadcastTo", {KeepDims(g, dy), g.ShapeOf(g.input(0))});
}

static void SumGradient(GradientContext& g) { g.SetDx(0, Spread(g, g.dy(0))); }
TENON_OP(kSum) = Reduction({
    .name = "Sum",
    .attrs = kNumberAttrs,
    .doc = "The sum along the axes; 0 of nothing.",
    .properties = "reduces(input, reduction_indices, keep_dims)",
    .gradient = GradientFunction<SumGradient>,
});

// How many elements go into one mean, when it is known.
static std::optional<int64_t> MeanOver(GradientContext& g) {
  const Shape input = g.shape(g.input(0)), output = g.shape(g.output(0));
  if (const auto axes = KnownAxes(g)) {
    int64_t product = 1;
    for (int64_t axis : *axes) {
      const int64_t dim = input[static_cast<int>(axis)];
      if (dim < 0 || !MultiplyFits(product, dim, &product)) return std::nullopt;
    }
    return product;
  }
  if (input.elements() < 0 || output.elements() < 0) return std::nullopt;
  return input.elements() / std::max<int64_t>(output.elements(), 1);
}

static void MeanGradient(GradientContext& g) {
  const Output dy = g.dy(0);
  Output count;
  if (const auto known = MeanOver(g)) {
    count = g.Scalar(static_cast<double>(*known), dy);
  } else {
    const auto size = [&](Output x) { return g.Op("Size", {x}, {Attribute::Type("out_type", TENON_DT_INT64)}); };
    const Output means = g.Op("Maximum", {size(g.output(0)), g.Number(1, TENON_DT_INT64)});
    count = g.Cast(g.Op("FloorDiv", {size(g.input(0)), means}), g.type(dy));
  }
  // Divided before it is repeated: less work.
  g.SetDx(0, Spread(g, g.Div(dy, count)));
}
TENON_OP(kMean) = Reduction({
    .name = "Mean",
    .attrs = kNumberAttrs,
    .doc = "The mean along the axes; NaN of nothing.",
    .properties = "reduces(input, reduction_indices, keep_dims)",
    .gradient = GradientFunction<MeanGradient>,
});

// The elements that are the largest (smallest) share the gradient equally.
static void ExtremeGradient(GradientContext& g) {
  const Output x = g.input(0);
  const Output chosen = g.Cast(g.Op("Equal", {x, KeepDims(g, g.output(0))}), g.type(x));
  const Output count = g.Sum(chosen, g.input(1), true);
  g.SetDx(0, g.Mul(g.Div(chosen, count), KeepDims(g, g.dy(0))));
}
TENON_OP(kMax) = Reduction({
    .name = "Max",
    .attrs = kOrderedAttrs,
    .doc = "The largest along the axes; the lowest number of the type of nothing.",
    .properties = "reduces(input, reduction_indices, keep_dims), exact",
    .gradient = GradientFunction<ExtremeGradient>,
});
TENON_OP(kMin) = Reduction({
    .name = "Min",
    .attrs = kOrderedAttrs,
    .doc = "The smallest along the axes; the highest number of the type of nothing.",
    .properties = "reduces(input, reduction_indices, keep_dims), exact",
    .gradient = GradientFunction<ExtremeGradient>,
});

// The product of the other elements: everything divided by x, unless there are zeros. With one zero only
// its own place has a gradient, the product of the rest; with two none has. (The second derivative is
// exact where no element is zero.)
static void ProdGradient(GradientContext& g) {
  const Output x = g.Conj(g.input(0)), axes = g.input(1);
  const Output zero = g.Scalar(0, x), one = g.Scalar(1, x);
  const Output is_zero = g.Op("Equal", {x, zero});
  const Output zeros = g.Sum(g.Cast(is_zero, g.type(x)), axes, true);
  const Output safe = g.Select(is_zero, one, x);
  const Output rest = g.Op("Prod", {safe, axes}, {{"keep_dims", true}});
  const Output at_zero = g.Select(g.Op("Equal", {zeros, one}), rest, zero);
  const Output elsewhere = g.Select(g.Op("Equal", {zeros, zero}), g.Div(rest, safe), zero);
  g.SetDx(0, g.Mul(g.Select(is_zero, at_zero, elsewhere), KeepDims(g, g.dy(0))));
}
// Of a list of sizes: their product.
static void ProdShape(ShapeContext& c) {
  ReduceShape(c);
  const auto sizes = c.Input(0).rank() == 1 ? c.Elements(0) : std::nullopt;
  const auto axes = sizes.has_value() ? c.Integers(1) : std::nullopt;
  if (axes.has_value() && axes->size() == 1) c.SetElements(0, {c.Count(Shape(*sizes))});
}
TENON_OP(kProd) = Reduction({
    .name = "Prod",
    .attrs = kNumberAttrs,
    .doc = "The product along the axes; 1 of nothing.",
    .properties = "reduces(input, reduction_indices, keep_dims)",
    .shape = ShapeFunction<ProdShape>,
    .gradient = GradientFunction<ProdGradient>,
});

static void EuclideanNormGradient(GradientContext& g) {
  g.SetDx(0, g.Div(g.input(0), g.Div(KeepDims(g, g.output(0)), KeepDims(g, g.dy(0)))));
}
// Halves are summed as floats; the root of whole numbers is cut off.
static void DecomposeEuclideanNorm(DecomposeContext& d) {
  const uint32_t type = d.input_type(0);
  const bool narrow = type == TENON_DT_HALF || type == TENON_DT_BFLOAT16;
  const Output x = narrow ? d.Cast(d.input(0), TENON_DT_FLOAT) : d.input(0);
  const Output sum =
      d.Sum(IsComplex(type) ? d.Mul(x, d.Conj(x)) : d.Op("Square", {x}), d.input(1), d.Bool("keep_dims"));
  const Output root = d.Op("Sqrt", {IsDifferentiable(type) ? sum : d.Cast(sum, TENON_DT_DOUBLE)});
  d.SetOutput(0, d.Cast(root, type));
}
TENON_OP(kEuclideanNorm) = Reduction({
    .name = "EuclideanNorm",
    .attrs = kNumberAttrs,
    .doc = "The square root of the sum of the squares along the axes.",
    .properties = "reduces(input, reduction_indices, keep_dims)",
    .gradient = GradientFunction<EuclideanNormGradient>,
    .decompose = DecomposeFunction<DecomposeEuclideanNorm>,
});

TENON_OP(kAll) = Reduction({
    .name = "All",
    .inputs = "input: bool, reduction_indices: Tidx",
    .outputs = "output: bool",
    .attrs = kBoolAttrs,
    .doc = "Whether all are true along the axes; true of nothing.",
    .properties = "reduces(input, reduction_indices, keep_dims), exact",
});
TENON_OP(kAny) = Reduction({
    .name = "Any",
    .inputs = "input: bool, reduction_indices: Tidx",
    .outputs = "output: bool",
    .attrs = kBoolAttrs,
    .doc = "Whether one is true along the axes; false of nothing.",
    .properties = "reduces(input, reduction_indices, keep_dims), exact",
});

static void ArgShape(ShapeContext& c) {
  const Shape input = c.WithRankAtLeast(0, 1);
  if (!input.known_rank()) return;
  const auto axis = c.Axis(1, input.rank());
  if (!axis.has_value()) return c.SetOutput(0, Shape::OfRank(input.rank() - 1));
  if (input[*axis] == 0) return c.Invalid("dim ", *axis, " of ", input, " is empty: there is no largest or smallest");
  c.SetOutput(0, Join(input.Slice(0, *axis), input.Slice(*axis + 1)));
}

TENON_OP(kArgMax) = DefineOp({
    .name = "ArgMax",
    .inputs = "input: T, dimension: Tidx",
    .outputs = "output: output_type",
    .attrs = "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64, qint8, "
             "quint8, qint32, qint16, quint16, bool}; Tidx: {int16, int32, int64} = int32; "
             "output_type: {int16, uint16, int32, int64} = int64",
    .constraints = "rank(input) >= 1; rank(dimension) == 0; value(dimension) >= -rank(input); "
                   "value(dimension) < rank(input)",
    .doc = "Where along the dimension the largest element is; the first of equal ones.",
    .properties = "reduces(input, dimension), exact",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ArgShape>,
});
TENON_OP(kArgMin) = DefineOp({
    .name = "ArgMin",
    .inputs = "input: T, dimension: Tidx",
    .outputs = "output: output_type",
    .attrs = "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64, qint8, "
             "quint8, qint32, qint16, quint16, bool}; Tidx: {int32, int64} = int32; "
             "output_type: {int32, int64} = int64",
    .constraints = "rank(input) >= 1; rank(dimension) == 0; value(dimension) >= -rank(input); "
                   "value(dimension) < rank(input)",
    .doc = "Where along the dimension the smallest element is; the first of equal ones.",
    .properties = "reduces(input, dimension), exact",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ArgShape>,
});

}  // namespace tenon::ops
