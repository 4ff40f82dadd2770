// SPDX-License-Identifier: Apache-2.0
// Gather, GatherV2: rows named by indices.
#include <optional>

#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

// Sizes that are taken out of a list of them.
static void TakeElements(ShapeContext& c) {
  const auto elements = c.Input(0).rank() == 1 && c.Input(1).rank() <= 1 ? c.Elements(0) : std::nullopt;
  const auto places = elements.has_value() ? c.Integers(1) : std::nullopt;
  if (!places.has_value()) return;
  std::vector<int64_t> taken;
  for (const int64_t place : *places) {
    if (place < 0 || place >= static_cast<int64_t>(elements->size())) return;
    taken.push_back((*elements)[static_cast<size_t>(place)]);
  }
  c.SetElements(0, taken);
}

static void GatherShape(ShapeContext& c) {
  c.SetOutput(0, Join(c.Input(1), c.WithRankAtLeast(0, 1).Slice(1)));
  TakeElements(c);
}

// Along axis 0 only the named rows have a gradient: indexed slices.
static void RowsGradient(GradientContext& g) {
  const Output params = g.input(0), dy = g.dy(0);
  // Slices are indexed by int32 or int64.
  const Output indices = g.type(g.input(1)) == TENON_DT_INT64 ? g.input(1) : g.Cast(g.input(1), TENON_DT_INT32);
  const Shape known = g.shape(params), index_shape = g.shape(indices);
  const Output shape = g.ShapeOf(params, TENON_DT_INT64);
  if (index_shape.rank() == 1) return g.SetDxSlices(0, dy, indices, shape);
  const Shape tail = known.Slice(1);
  // As many as there are indices: of rows without elements the gradient's own shape would not say.
  int64_t count = index_shape.fully_known() ? 1 : kUnknown;
  for (int i = 0; count != kUnknown && i < index_shape.rank(); ++i) count *= index_shape[i];
  const Output counted =
      count != kUnknown
          ? g.Vector({count}, TENON_DT_INT64)
          : g.Reshape(g.Op("Size", {indices}, {Attribute::Type("out_type", TENON_DT_INT64)}), g.Vector({1}));
  const Output rows = count != kUnknown && tail.fully_known()
                          ? g.Vector(Join(Shape{count}, tail).dims(), TENON_DT_INT64)
                          : g.Concat({counted, g.VectorSlice(shape, 1)});
  g.SetDxSlices(0, g.Reshape(dy, rows), g.Reshape(indices, g.Vector({-1})), shape);
}

TENON_OP(kGather) = DefineOp({
    .name = "Gather",
    .inputs = "params: Tparams, indices: Tindices",
    .outputs = "output: Tparams",
    .attrs = "validate_indices: bool = true; Tparams: type; Tindices: {int32, int64}",
    .constraints = "rank(params) >= 1; element(indices) >= 0; element(indices) < dim(params, 0)",
    .doc = "The rows of params that indices name.",
    .properties = "moves(params)",
    .shape = ShapeFunction<GatherShape>,
    .gradient = GradientFunction<RowsGradient>,
});

static void GatherV2Shape(ShapeContext& c) {
  const Shape params = c.WithRankAtLeast(0, 1), indices = c.Input(1);
  c.WithRank(2, 0);
  if (!params.known_rank() || !indices.known_rank()) return;
  int64_t batch_dims = c.Int("batch_dims");
  if (batch_dims < -indices.rank() || batch_dims > indices.rank()) {
    return c.Invalid("batch_dims ", batch_dims, " does not fit indices of shape ", indices);
  }
  if (batch_dims < 0) batch_dims += indices.rank();
  const int batch = static_cast<int>(batch_dims);
  if (batch >= params.rank()) return c.Invalid("batch_dims ", batch, " does not fit params of shape ", params);
  const auto axis = c.Axis(2, params.rank());
  if (!axis.has_value()) return c.SetOutput(0, Shape::OfRank(params.rank() - 1 + indices.rank() - batch));
  if (*axis < batch) return c.Invalid("axis ", *axis, " must not be less than batch_dims ", batch);
  Shape front = params.Slice(0, *axis);
  for (int i = 0; i < batch; ++i) front.Set(i, c.Merge(params[i], indices[i], "the batch dims of params and indices"));
  c.SetOutput(0, Join(Join(front, indices.Slice(batch)), params.Slice(*axis + 1)));
  if (batch == 0) TakeElements(c);
}

namespace {

// Products of dims, each a number where it is known and else a scalar in the graph (int64).
class Sizes {
 public:
  struct Size {
    std::optional<int64_t> known;
    Output output;
  };
  explicit Sizes(GradientContext& g) : g_(g) {}

  Size Known(int64_t value) { return {value, {}}; }
  // Of the dims [begin, end) of x; positions may be known only when the graph runs (vectors of one
  // int64).
  Size Of(Output x, std::optional<int64_t> begin, Output begin_output, std::optional<int64_t> end, Output end_output) {
    const Shape shape = g_.shape(x);
    if (begin.has_value() && end.has_value() && shape.known_rank()) {
      const auto position = [&](int64_t dim) { return static_cast<int>(std::min<int64_t>(dim, shape.rank())); };
      const int64_t elements = shape.Slice(position(*begin), position(*end)).elements();
      if (elements >= 0) return Known(elements);
    }
    const Output from = begin.has_value() ? g_.Vector({*begin}, TENON_DT_INT64) : begin_output;
    const Output to = end.has_value() ? g_.Vector({*end}, TENON_DT_INT64) : end_output;
    const bool to_the_end = end == INT64_MAX;
    const Output dims = g_.Op("StridedSlice", {g_.ShapeOf(x, TENON_DT_INT64), from, to, g_.Vector({1}, TENON_DT_INT64)},
                              {{"end_mask", to_the_end ? 1 : 0}});
    return {std::nullopt, g_.Op("Prod", {dims, g_.Vector({0})})};
  }
  Size Times(const Size& a, const Size& b) {
    int64_t product = 0;
    if (a.known == 1) return b;
    if (b.known == 1) return a;
    if (a.known && b.known && MultiplyFits(*a.known, *b.known, &product)) return Known(product);
    return {std::nullopt, g_.Mul(Scalar(a), Scalar(b))};
  }
  Output Scalar(const Size& size) { return size.known ? g_.Number(*size.known, TENON_DT_INT64) : size.output; }
  // Only the first unknown one is left to Reshape; more are packed.
  Output Vector(const std::vector<Size>& sizes) {
    std::vector<int64_t> numbers;
    std::vector<Output> scalars;
    int unknown = 0;
    bool zero = false;
    for (const Size& size : sizes) {
      numbers.push_back(size.known.value_or(-1));
      unknown += size.known ? 0 : 1;
      zero = zero || size.known == 0;
    }
    if (unknown == 0 || (unknown == 1 && !zero)) return g_.Vector(numbers, TENON_DT_INT64);
    for (const Size& size : sizes) scalars.push_back(Scalar(size));
    return g_.Op("Pack", scalars);
  }

 private:
  GradientContext& g_;
};

}  // namespace

// Along another axis: with B batches, O outer, A gathered and I inner elements and N indices a
// batch, dy is [B, O, N, I]. The indices come first, rows are added up by index, and everything is
// moved back.
static void GatherV2Gradient(GradientContext& g) {
  const Output params = g.input(0), axis_input = g.input(2);
  const Output indices = g.type(g.input(1)) == TENON_DT_INT64 ? g.input(1) : g.Cast(g.input(1), TENON_DT_INT64);
  const Shape shape = g.shape(params);
  int64_t batch = g.Int("batch_dims");
  if (batch < 0 && g.shape(indices).known_rank()) batch += g.shape(indices).rank();
  if (batch < 0)
    return g.Fail(TENON_UNIMPLEMENTED, "the gradient with a negative batch_dims needs the rank of indices");
  std::optional<int64_t> axis;
  if (const auto values = g.Integers(axis_input); values.has_value() && values->size() == 1) axis = values->front();
  if (shape.rank() == 1) axis = 0;
  if (axis.has_value() && *axis < 0) axis = shape.known_rank() ? std::optional(*axis + shape.rank()) : std::nullopt;
  if (batch == 0 && axis == 0) return RowsGradient(g);
  Output at, after;
  if (!axis.has_value()) {
    const Output rank = g.Cast(g.Op("Rank", {params}), TENON_DT_INT64);
    at = g.Reshape(g.Op("FloorMod", {g.Cast(axis_input, TENON_DT_INT64), rank}), g.Vector({1}));
    after = g.Add(at, g.Vector({1}, TENON_DT_INT64));
  }
  std::optional<int64_t> next;
  if (axis.has_value()) next = *axis + 1;
  Sizes sizes(g);
  using Size = Sizes::Size;
  const Size b = batch == 0 ? sizes.Known(1) : sizes.Of(params, 0, {}, batch, {});
  const Size o = sizes.Of(params, batch, {}, axis, at);
  const Size a = sizes.Of(params, axis, at, next, after);
  const Size i = sizes.Of(params, next, after, INT64_MAX, {});
  const Size n = sizes.Of(indices, batch, {}, INT64_MAX, {});
  const auto reshape = [&](Output x, const std::vector<Size>& dims) { return g.Reshape(x, sizes.Vector(dims)); };

  const Output rows = g.Op("Transpose", {reshape(g.dy(0), {b, o, n, i}), g.Vector({0, 2, 1, 3})});
  Output ids = reshape(indices, {b, n});
  if (b.known != 1) {  // each batch adds up into rows of its own
    const Output batches = g.Op("Range", {g.Number(0, TENON_DT_INT64), sizes.Scalar(b), g.Number(1, TENON_DT_INT64)});
    ids = g.Add(ids, g.ExpandDims(g.Mul(batches, sizes.Scalar(a)), -1));
  }
  const Output sums = g.Op("UnsortedSegmentSum", {reshape(rows, {sizes.Times(b, n), o, i}),
                                                  g.Reshape(ids, g.Vector({-1})), sizes.Scalar(sizes.Times(b, a))});
  const Output back = g.Op("Transpose", {reshape(sums, {b, a, o, i}), g.Vector({0, 2, 1, 3})});
  g.SetDx(0, g.Reshape(back, g.ShapeOf(params)));
}

TENON_OP(kGatherV2) = DefineOp({
    .name = "GatherV2",
    .inputs = "params: Tparams, indices: Tindices, axis: Taxis",
    .outputs = "output: Tparams",
    .attrs = "batch_dims: int = 0; Tparams: type; Tindices: {int16, int32, int64}; Taxis: {int32, "
             "int64}",
    .constraints = "rank(params) >= 1; numel(axis) == 1; value(axis) >= -rank(params); value(axis) "
                   "< rank(params); "
                   "batch_dims <= rank(indices); batch_dims < rank(params); element(indices) >= 0",
    .doc = "The slices of params along axis that indices name; the first batch_dims dims of both "
           "go together.",
    .properties = "moves(params)",
    .shape = ShapeFunction<GatherV2Shape>,
    .gradient = GradientFunction<GatherV2Gradient>,
});

}  // namespace tenon::ops
