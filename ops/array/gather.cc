// SPDX-License-Identifier: Apache-2.0
// Gather, GatherV2: rows named by indices.
#include "tenon/sdk/op.h"

namespace tenon::ops {
using namespace sdk;

static void GatherShape(ShapeContext& c) {
  c.SetOutput(0, Join(c.Input(1), c.WithRankAtLeast(0, 1).Slice(1)));
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
  const Output rows = tail.fully_known()
                          ? g.Vector(Join(Shape{-1}, tail).dims(), TENON_DT_INT64)
                          : g.Concat({g.Vector({-1}, TENON_DT_INT64), g.VectorSlice(shape, 1)});
  g.SetDxSlices(0, g.Reshape(dy, rows), g.Reshape(indices, g.Vector({-1})), shape);
}

extern const tenon_op_definition kGather = DefineOp({
    .name = "Gather",
    .inputs = "params: Tparams, indices: Tindices",
    .outputs = "output: Tparams",
    .attrs = "validate_indices: bool = true; Tparams: type; Tindices: {int32, int64}",
    .constraints = "rank(params) >= 1; element(indices) >= 0; element(indices) < dim(params, 0)",
    .doc = "The rows of params that indices name.",
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
}

// Elsewhere: the axis is moved to the front, rows are added up by index, and the axis moved back.
static void GatherV2Gradient(GradientContext& g) {
  const Output params = g.input(0), indices = g.input(1);
  const auto axis_value = g.Integers(g.input(2));
  const int64_t batch_dims = g.Int("batch_dims");
  const Shape shape = g.shape(params);
  if (!g.ok()) return;
  if (batch_dims != 0) {
    return g.Fail(TENON_UNIMPLEMENTED, "the gradient with batch_dims ", batch_dims, " is not there; only 0 is");
  }
  const bool one_dim = shape.rank() == 1;
  if (one_dim || (axis_value.has_value() && axis_value->size() == 1 && axis_value->front() == 0)) {
    return RowsGradient(g);
  }
  if (!axis_value.has_value() || axis_value->size() != 1 || !shape.known_rank()) {
    return g.Fail(TENON_UNIMPLEMENTED, "the gradient needs axis as a constant, and for axes other than 0 the rank of "
                  "params (its shape is ", shape, "); make axis a constant, or give params a shape");
  }
  const int rank = shape.rank();
  const int axis = static_cast<int>(axis_value->front() < 0 ? axis_value->front() + rank : axis_value->front());
  if (axis < 0 || axis >= rank) return g.Invalid("axis ", axis_value->front(), " is outside of shape ", shape);
  if (axis == 0) return RowsGradient(g);
  // dy as [outer..., every index, inner...], then with the indices first.
  Output flat;
  if (shape.fully_known()) {
    flat = g.Vector(Join(Join(shape.Slice(0, axis), Shape{-1}), shape.Slice(axis + 1)).dims(), TENON_DT_INT64);
  } else {
    const Output dims = g.ShapeOf(params, TENON_DT_INT64);
    std::vector<Output> parts = {g.VectorSlice(dims, 0, axis), g.Vector({-1}, TENON_DT_INT64)};
    if (axis + 1 < rank) parts.push_back(g.VectorSlice(dims, axis + 1));
    flat = g.Concat(parts);
  }
  std::vector<int64_t> to_front = {axis}, back;
  for (int i = 0; i < rank; ++i) {
    if (i != axis) to_front.push_back(i);
    back.push_back(i < axis ? i + 1 : i == axis ? 0 : i);
  }
  const Output values = g.Op("Transpose", {g.Reshape(g.dy(0), flat), g.Vector(to_front)});
  const Output size = shape[axis] >= 0
                          ? g.Number(shape[axis], TENON_DT_INT64)
                          : g.Reshape(g.VectorSlice(g.ShapeOf(params, TENON_DT_INT64), axis, axis + 1), g.Vector({}));
  const Output sums = g.Op("UnsortedSegmentSum", {values, g.Reshape(indices, g.Vector({-1})), size});
  g.SetDx(0, g.Op("Transpose", {sums, g.Vector(back)}));
}

extern const tenon_op_definition kGatherV2 = DefineOp({
    .name = "GatherV2",
    .inputs = "params: Tparams, indices: Tindices, axis: Taxis",
    .outputs = "output: Tparams",
    .attrs = "batch_dims: int = 0; Tparams: type; Tindices: {int16, int32, int64}; Taxis: {int32, int64}",
    .constraints = "rank(params) >= 1; numel(axis) == 1; value(axis) >= -rank(params); value(axis) < rank(params); "
                   "batch_dims <= rank(indices); batch_dims < rank(params); element(indices) >= 0",
    .doc = "The slices of params along axis that indices name; the first batch_dims dims of both go together.",
    .shape = ShapeFunction<GatherV2Shape>,
    .gradient = GradientFunction<GatherV2Gradient>,
});

}  // namespace tenon::ops
