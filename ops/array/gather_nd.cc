// SPDX-License-Identifier: Apache-2.0
// Slices named by vectors of indices: read (GatherNd), put into zeros (ScatterNd) or into a tensor (TensorScatter...).
//
// The last dim of indices is as many leading dims of the tensor; an index outside is an error, or with
// bad_indices_policy 'IGNORE' left out.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// How many dims of a tensor each index names; kUnknown when that is not known.
int64_t IndexDepth(ShapeContext& c, const Shape& indices, const Shape& tensor) {
  const int64_t depth = indices[-1];
  if (depth >= 0 && tensor.known_rank() && depth > tensor.rank()) {
    c.Invalid("indices of shape ", indices, " name ", depth, " dims of a tensor of shape ", tensor);
    return kUnknown;
  }
  return tensor.known_rank() ? depth : kUnknown;
}

void GatherNdShape(ShapeContext& c) {
  const Shape params = c.WithRankAtLeast(0, 1), indices = c.WithRankAtLeast(1, 1);
  const int64_t depth = IndexDepth(c, indices, params);
  if (depth >= 0) c.SetOutput(0, Join(indices.Slice(0, -1), params.Slice(static_cast<int>(depth))));
}

// updates have a slice for each index.
void CheckUpdates(ShapeContext& c, const Shape& tensor, const Shape& indices, const Shape& updates) {
  const int64_t depth = IndexDepth(c, indices, tensor);
  if (indices.known_rank() && updates.known_rank()) {
    const Shape each = indices.Slice(0, -1);
    c.Merge(each, updates.Slice(0, each.rank()), "the leading dims of indices and of updates");
  }
  if (depth >= 0 && updates.known_rank())
    c.Merge(Join(indices.Slice(0, -1), tensor.Slice(static_cast<int>(depth))), updates,
            "the shapes of the named slices and of updates");
}

void ScatterNdShape(ShapeContext& c) {
  const Shape shape = c.WantedShape(2), indices = c.WithRankAtLeast(0, 1), updates = c.WithRankAtLeast(1, 1);
  CheckUpdates(c, shape, indices, updates);
  c.SetOutput(0, shape);
}

void TensorScatterShape(ShapeContext& c) {
  const Shape tensor = c.WithRankAtLeast(0, 1);
  CheckUpdates(c, tensor, c.WithRankAtLeast(1, 1), c.Input(2));
  c.SetOutput(0, tensor);
}

// Nodes of this family, with the policy of the one that is differentiated.
Output Gather(GradientContext& g, Output params, Output indices) {
  return g.Op("GatherNd", {params, indices}, {{"bad_indices_policy", g.String("bad_indices_policy")}});
}
Output Scatter(GradientContext& g, std::string_view op, const std::vector<Output>& inputs) {
  return g.Op(op, inputs, {{"bad_indices_policy", g.String("bad_indices_policy")}});
}

// The indices of an op that takes int32 and int64 alone.
Output WideIndices(GradientContext& g, Output indices) {
  const uint32_t dtype = g.type(indices);
  return dtype == TENON_DT_INT32 || dtype == TENON_DT_INT64 ? indices : g.Cast(indices, TENON_DT_INT32);
}

void GatherNdGradient(GradientContext& g) {
  const Output indices = WideIndices(g, g.input(1));
  const Shape shape = g.shape(indices);
  // Rows of their own are slices already, and stay so.
  if (shape.rank() == 2 && shape[1] == 1 && g.String("bad_indices_policy").empty()) {
    return g.SetDxSlices(0, g.dy(0), g.Reshape(indices, g.Vector({-1})), g.ShapeOf(g.input(0), TENON_DT_INT64));
  }
  g.SetDx(0, Scatter(g, "ScatterNd", {indices, g.dy(0), g.ShapeOf(g.input(0), g.type(indices))}));
}

void ScatterNdGradient(GradientContext& g) { g.SetDx(1, Gather(g, g.dy(0), g.input(0))); }

void UpdateGradient(GradientContext& g) {
  g.SetDx(0, Scatter(g, "TensorScatterUpdate", {g.dy(0), g.input(1), g.ZerosLike(g.input(2))}));
  g.SetDx(2, Gather(g, g.dy(0), g.input(1)));
}
void AddGradient(GradientContext& g) {
  g.PassOn(0, 0);
  g.SetDx(2, Gather(g, g.dy(0), g.input(1)));
}
void SubGradient(GradientContext& g) {
  g.PassOn(0, 0);
  g.SetDx(2, g.Neg(Gather(g, g.dy(0), g.input(1))));
}

// Elements that are equally the smallest, or largest, share the gradient.
void ChooseGradient(GradientContext& g) {
  const Output x = g.input(0), indices = g.input(1), updates = g.input(2), dy = g.dy(0);
  const uint32_t dtype = g.type(dy);
  const auto equal = [&](Output a, Output b) { return g.Cast(g.Op("Equal", {a, b}), dtype); };
  const Output x_chosen = equal(x, g.output(0));
  const Output updates_chosen = equal(updates, Gather(g, g.output(0), indices));
  const Output count =
      g.Add(x_chosen, Scatter(g, "ScatterNd", {indices, updates_chosen, g.ShapeOf(x, g.type(indices))}));
  const Output share = g.Div(dy, count);
  g.SetDx(0, g.Mul(share, x_chosen));
  g.SetDx(2, g.Mul(updates_chosen, Gather(g, share, indices)));
}

consteval tenon_op_definition TensorScatter(OpDefinition op) {
  op.inputs = "tensor: T, indices: Tindices, updates: T";
  op.outputs = "output: T";
  if (op.attrs.empty()) op.attrs = "T: type; Tindices: {int32, int64}; bad_indices_policy: string = ''";
  op.constraints =
      "rank(tensor) >= 1; rank(indices) >= 1; rank(updates) >= 1; dim(indices, -1) >= 1; dim(indices, -1) <= "
      "rank(tensor); "
      "element(indices) >= 0";
  op.shape = ShapeFunction<TensorScatterShape>;
  return DefineOp(op);
}

}  // namespace

TENON_OP(kGatherNd) = DefineOp({
    .name = "GatherNd",
    .inputs = "params: Tparams, indices: Tindices",
    .outputs = "output: Tparams",
    .attrs = "Tparams: type; Tindices: {int16, int32, int64}; bad_indices_policy: string = ''",
    .constraints = "rank(params) >= 1; rank(indices) >= 1; dim(indices, -1) <= rank(params); element(indices) >= 0",
    .doc = "The slices of params that the vectors in the last dim of indices name.",
    .properties = "moves(params)",
    .shape = ShapeFunction<GatherNdShape>,
    .gradient = GradientFunction<GatherNdGradient>,
});

TENON_OP(kScatterNd) = DefineOp({
    .name = "ScatterNd",
    .inputs = "indices: Tindices, updates: T, shape: Tindices",
    .outputs = "output: T",
    .attrs = "T: type; Tindices: {int16, int32, int64}; bad_indices_policy: string = ''",
    .constraints =
        "rank(indices) >= 1; dim(indices, -1) >= 1; rank(updates) >= 1; rank(shape) == 1; value(shape) >= 0; "
        "element(indices) >= 0",
    .doc = "Zeros of the given shape, to which updates are added at the slices that indices name.",
    .shape = ShapeFunction<ScatterNdShape>,
    .gradient = GradientFunction<ScatterNdGradient>,
});

TENON_OP(kTensorScatterUpdate) = TensorScatter({
    .name = "TensorScatterUpdate",
    .attrs = "T: type; Tindices: {int16, int32, int64, uint16}; bad_indices_policy: string = ''",
    .doc = "The tensor with updates at the slices that indices name; of a slice that is named twice the last stays.",
    .properties = "moves(tensor, updates)",
    .gradient = GradientFunction<UpdateGradient>,
});
TENON_OP(kTensorScatterAdd) = TensorScatter({
    .name = "TensorScatterAdd",
    .doc = "The tensor with updates added to the slices that indices name.",
    .gradient = GradientFunction<AddGradient>,
});
TENON_OP(kTensorScatterSub) = TensorScatter({
    .name = "TensorScatterSub",
    .doc = "The tensor with updates subtracted from the slices that indices name.",
    .gradient = GradientFunction<SubGradient>,
});
TENON_OP(kTensorScatterMin) = TensorScatter({
    .name = "TensorScatterMin",
    .doc = "The tensor, and where updates at the slices that indices name are smaller, those.",
    .gradient = GradientFunction<ChooseGradient>,
});
TENON_OP(kTensorScatterMax) = TensorScatter({
    .name = "TensorScatterMax",
    .doc = "The tensor, and where updates at the slices that indices name are larger, those.",
    .gradient = GradientFunction<ChooseGradient>,
});

}  // namespace tenon::ops
