// SPDX-License-Identifier: Apache-2.0
// Rows of variables: read (ResourceGather) and changed (Scatter...) by index.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void ResourceGatherShape(ShapeContext& c) {
  const ShapeContext::Handle handle = c.InputHandle(0);
  if (handle.dtype != TENON_DT_INVALID && BaseType(handle.dtype) != c.Type("dtype")) {
    return c.Invalid("the variable is of type ", TypeName(handle.dtype), ", but 'dtype' says ",
                     TypeName(c.Type("dtype")));
  }
  const Shape params = handle.shape, indices = c.Input(1);
  if (!params.known_rank() || !indices.known_rank()) return;
  if (params.rank() < 1) return c.Invalid("the variable is a scalar; it has no rows");
  int64_t batch_dims = c.Int("batch_dims");
  if (batch_dims < 0) batch_dims += indices.rank();
  if (batch_dims < 0 || batch_dims > indices.rank() || batch_dims >= params.rank()) {
    return c.Invalid("batch_dims ", c.Int("batch_dims"), " does not fit a variable of shape ", params,
                     " and indices of shape ", indices);
  }
  const int batch = static_cast<int>(batch_dims);
  Shape front = params.Slice(0, batch);
  for (int i = 0; i < batch; ++i) front.Set(i, c.Merge(params[i], indices[i], "the batch dims"));
  c.SetOutput(0, Join(Join(front, indices.Slice(batch)), params.Slice(batch + 1)));
}

// Only the rows that were read have a gradient.
static void ResourceGatherGradient(GradientContext& g) {
  if (const int64_t batch_dims = g.Int("batch_dims"); batch_dims != 0) {
    return g.Fail(TENON_UNIMPLEMENTED, "the gradient with batch_dims ", batch_dims, " is not there; only 0 is");
  }
  const Output indices = g.input(1), dy = g.dy(0);
  const Output value = g.Op("ReadVariableOp", {g.input(0)}, {Attribute::Type("dtype", g.Type("dtype"))});
  const Output shape = g.ShapeOf(value, TENON_DT_INT64);
  if (g.shape(indices).rank() == 1) return g.SetDxSlices(0, dy, indices, shape);
  const Shape tail = g.shape(value).Slice(1);
  const Output rows = tail.fully_known() ? g.Vector(Join(Shape{-1}, tail).dims(), TENON_DT_INT64)
                                         : g.Concat({g.Vector({-1}, TENON_DT_INT64), g.VectorSlice(shape, 1)});
  g.SetDxSlices(0, g.Reshape(dy, rows), g.Reshape(indices, g.Vector({-1})), shape);
}

TENON_OP(kResourceGather) = DefineOp({
    .name = "ResourceGather",
    .inputs = "resource: resource, indices: Tindices",
    .outputs = "output: dtype",
    .attrs = "batch_dims: int = 0; validate_indices: bool = true; dtype: type; Tindices: {int32, int64}",
    .constraints = "batch_dims <= rank(indices); element(indices) >= 0",
    .roles = "read_variable_rows",
    .doc = "The rows of the variable that indices name.",
    .properties = "reads_state",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<ResourceGatherShape>,
    .gradient = GradientFunction<ResourceGatherGradient>,
});

// updates are one scalar, or a row for each index.
static void CheckUpdates(ShapeContext& c, const Shape& variable) {
  const Shape indices = c.Input(1), updates = c.Input(2);
  if (variable.rank() == 0) return c.Invalid("the variable is a scalar; it has no rows");
  if (!variable.known_rank() || !indices.known_rank() || updates.rank() == 0) return;
  c.Merge(Join(indices, variable.Slice(1)), updates, "the shapes of the named rows and of updates");
}

static void ScatterShape(ShapeContext& c) {
  CheckUpdates(c, c.Input(0));
  c.PassOn(0, 0);
}

static void ResourceScatterShape(ShapeContext& c) {
  const ShapeContext::Handle handle = c.InputHandle(0);
  if (handle.dtype != TENON_DT_INVALID && BaseType(handle.dtype) != c.Type("dtype")) {
    return c.Invalid("the variable is of type ", TypeName(handle.dtype), ", but 'dtype' says ",
                     TypeName(c.Type("dtype")));
  }
  CheckUpdates(c, handle.shape);
}

TENON_OP(kResourceScatterAdd) = DefineOp({
    .name = "ResourceScatterAdd",
    .inputs = "resource: resource, indices: Tindices, updates: dtype",
    .attrs = "dtype: numbertype; Tindices: {int32, int64}",
    .constraints = "element(indices) >= 0",
    .doc = "Adds updates to the rows of the variable that indices name; a row named twice gets both.",
    .traits = TENON_OP_STATEFUL | TENON_OP_WRITES_STATE,
    .shape = ShapeFunction<ResourceScatterShape>,
});

TENON_OP(kResourceScatterSub) = DefineOp({
    .name = "ResourceScatterSub",
    .inputs = "resource: resource, indices: Tindices, updates: dtype",
    .attrs = "dtype: numbertype; Tindices: {int32, int64}",
    .constraints = "element(indices) >= 0",
    .doc = "Subtracts updates from the rows of the variable that indices name; a row named twice loses both.",
    .traits = TENON_OP_STATEFUL | TENON_OP_WRITES_STATE,
    .shape = ShapeFunction<ResourceScatterShape>,
});

TENON_OP(kResourceScatterUpdate) = DefineOp({
    .name = "ResourceScatterUpdate",
    .inputs = "resource: resource, indices: Tindices, updates: dtype",
    .attrs = "dtype: type; Tindices: {int32, int64}",
    .constraints = "element(indices) >= 0",
    .doc = "Gives updates to the rows of the variable that indices name; a row named twice keeps the last.",
    .traits = TENON_OP_STATEFUL | TENON_OP_WRITES_STATE,
    .shape = ShapeFunction<ResourceScatterShape>,
});

TENON_OP(kScatterUpdate) = DefineOp({
    .name = "ScatterUpdate",
    .inputs = "ref: Ref(T), indices: Tindices, updates: T",
    .outputs = "output_ref: Ref(T)",
    .attrs = "T: type; Tindices: {int32, int64}; use_locking: bool = true",
    .constraints = "element(indices) >= 0; element(indices) < dim(ref, 0)",
    .doc = "Gives updates to the rows of the variable that indices name; a row named twice keeps the last.",
    .traits = TENON_OP_WRITES_STATE | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScatterShape>,
});

// ScatterMul and its like: what becomes of the rows, one update after the other.
static consteval tenon_op_definition ScatterOp(OpDefinition op) {
  op.inputs = "ref: Ref(T), indices: Tindices, updates: T";
  op.outputs = "output_ref: Ref(T)";
  if (op.attrs.empty()) op.attrs = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false";
  op.constraints = "element(indices) >= 0; element(indices) < dim(ref, 0)";
  op.traits = TENON_OP_WRITES_STATE | TENON_OP_NO_GRADIENT;
  op.shape = ShapeFunction<ScatterShape>;
  return DefineOp(op);
}
static consteval tenon_op_definition ResourceScatterOp(OpDefinition op) {
  op.inputs = "resource: resource, indices: Tindices, updates: dtype";
  op.attrs = "dtype: numbertype; Tindices: {int32, int64}";
  op.constraints = "element(indices) >= 0";
  op.traits = TENON_OP_STATEFUL | TENON_OP_WRITES_STATE;
  op.shape = ShapeFunction<ResourceScatterShape>;
  return DefineOp(op);
}

static constexpr std::string_view kMul =
    "Multiplies the rows of the variable that indices name by updates; a row named twice by both.";
static constexpr std::string_view kDiv =
    "Divides the rows of the variable that indices name by updates; a row named twice by both.";
static constexpr std::string_view kMin =
    "The smaller of updates and of the rows of the variable that indices name stays there.";
static constexpr std::string_view kMax =
    "The larger of updates and of the rows of the variable that indices name stays there.";
static constexpr std::string_view kOrdered =
    "T: {half, bfloat16, float, double, int32, int64}; Tindices: {int32, int64}; use_locking: bool = false";

TENON_OP(kScatterMul) = ScatterOp({.name = "ScatterMul", .doc = kMul});
TENON_OP(kScatterDiv) = ScatterOp({.name = "ScatterDiv", .doc = kDiv});
TENON_OP(kScatterMin) = ScatterOp({.name = "ScatterMin", .attrs = kOrdered, .doc = kMin});
TENON_OP(kScatterMax) = ScatterOp({.name = "ScatterMax", .attrs = kOrdered, .doc = kMax});
TENON_OP(kResourceScatterMul) = ResourceScatterOp({.name = "ResourceScatterMul", .doc = kMul});
TENON_OP(kResourceScatterDiv) = ResourceScatterOp({.name = "ResourceScatterDiv", .doc = kDiv});
TENON_OP(kResourceScatterMin) = ResourceScatterOp({.name = "ResourceScatterMin", .doc = kMin});
TENON_OP(kResourceScatterMax) = ResourceScatterOp({.name = "ResourceScatterMax", .doc = kMax});

static void ResourceGatherNdShape(ShapeContext& c) {
  const ShapeContext::Handle handle = c.InputHandle(0);
  if (handle.dtype != TENON_DT_INVALID && BaseType(handle.dtype) != c.Type("dtype")) {
    return c.Invalid("the variable is of type ", TypeName(handle.dtype), ", but 'dtype' says ",
                     TypeName(c.Type("dtype")));
  }
  const Shape params = handle.shape, indices = c.WithRankAtLeast(1, 1);
  if (!params.known_rank() || indices[-1] < 0) return;
  if (params.rank() < 1) return c.Invalid("params must be at least a vector");
  if (indices[-1] > params.rank())
    return c.Invalid("indices of shape ", indices, " name ", indices[-1], " dims of a variable of shape ", params);
  c.SetOutput(0, Join(indices.Slice(0, -1), params.Slice(static_cast<int>(indices[-1]))));
}

static void ResourceGatherNdGradient(GradientContext& g) {
  const Output indices = g.input(1);
  const Output value = g.Op("ReadVariableOp", {g.input(0)}, {Attribute::Type("dtype", g.Type("dtype"))});
  const Shape shape = g.shape(indices);
  if (shape.rank() == 2 && shape[1] == 1) {
    return g.SetDxSlices(0, g.dy(0), g.Reshape(indices, g.Vector({-1})), g.ShapeOf(value, TENON_DT_INT64));
  }
  g.SetDx(0, g.Op("ScatterNd", {indices, g.dy(0), g.ShapeOf(value, g.type(indices))}));
}

TENON_OP(kResourceGatherNd) = DefineOp({
    .name = "ResourceGatherNd",
    .inputs = "resource: resource, indices: Tindices",
    .outputs = "output: dtype",
    .attrs = "dtype: type; Tindices: {int32, int64}",
    .constraints = "rank(indices) >= 1; element(indices) >= 0",
    .roles = "read_variable_rows",
    .doc = "The slices of the variable that the vectors in the last dim of indices name.",
    .properties = "reads_state",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<ResourceGatherNdShape>,
    .gradient = GradientFunction<ResourceGatherNdGradient>,
});

TENON_OP(kScatterAdd) = DefineOp({
    .name = "ScatterAdd",
    .inputs = "ref: Ref(T), indices: Tindices, updates: T",
    .outputs = "output_ref: Ref(T)",
    .attrs = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false",
    .constraints = "element(indices) >= 0; element(indices) < dim(ref, 0)",
    .doc = "Adds updates to the rows of the variable that indices name; a row named twice gets both.",
    .traits = TENON_OP_WRITES_STATE | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScatterShape>,
});

TENON_OP(kScatterSub) = DefineOp({
    .name = "ScatterSub",
    .inputs = "ref: Ref(T), indices: Tindices, updates: T",
    .outputs = "output_ref: Ref(T)",
    .attrs = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false",
    .constraints = "element(indices) >= 0; element(indices) < dim(ref, 0)",
    .doc = "Subtracts updates from the rows of the variable that indices name; a row named twice loses both.",
    .traits = TENON_OP_WRITES_STATE | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScatterShape>,
});

}  // namespace tenon::ops
