// SPDX-License-Identifier: Apache-2.0
// Sparse tensors, as indices [N, rank], values [N] and a dense shape: to dense ones, reshaped, and with no row left
// empty.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void SparseToDenseShape(ShapeContext& c) {
  c.WithRankAtMost(0, 2);
  c.WithRankAtMost(2, 1);
  c.WithRank(3, 0);
  c.SetOutput(0, c.WantedShape(1));
}

static void SparseToDenseGradient(GradientContext& g) {
  const Output indices = g.input(0), dy = g.dy(0);
  // Vectors of indices are matrices of one column.
  const auto columns = [&] { return g.Reshape(g.Op("Rank", {dy}), g.Vector({1})); };
  const bool matrix = g.shape(indices).rank() == 2;
  const Output values =
      g.Op("GatherNd", {dy, matrix ? indices : g.Reshape(indices, g.Concat({g.Vector({-1}), columns()}))});
  const auto sum = [&](Output x) { return g.Sum(x, g.Op("Range", {g.Number(0), g.Op("Rank", {x}), g.Number(1)})); };
  g.SetDx(2, g.shape(g.input(2)).rank() == 0 ? sum(values) : values);
  g.SetDx(3, g.Sub(sum(dy), sum(values)));
}

TENON_OP(kSparseToDense) = DefineOp({
    .name = "SparseToDense",
    .inputs = "sparse_indices: Tindices, output_shape: Tindices, sparse_values: T, default_value: T",
    .outputs = "dense: T",
    .attrs = "validate_indices: bool = true; T: type; Tindices: {int32, int64}",
    .constraints =
        "rank(sparse_indices) <= 2; rank(output_shape) == 1; value(output_shape) >= 0; rank(sparse_values) <= 1; "
        "rank(default_value) == 0; element(sparse_indices) >= 0",
    .doc = "A tensor of default_value with sparse_values at sparse_indices.",
    .shape = ShapeFunction<SparseToDenseShape>,
    .gradient = GradientFunction<SparseToDenseGradient>,
});

static void SparseReshapeShape(ShapeContext& c) {
  const Shape indices = c.WithRank(0, 2), shape = c.WithRank(1, 1), wanted = c.WithRank(2, 1);
  c.Merge(indices[1], shape[0], "the columns of input_indices and the numbers of input_shape");
  c.SetOutput(0, {indices[0], wanted[0]});
  c.SetOutput(1, {wanted[0]});
}

TENON_OP(kSparseReshape) = DefineOp({
    .name = "SparseReshape",
    .inputs = "input_indices: int64, input_shape: int64, new_shape: int64",
    .outputs = "output_indices: int64, output_shape: int64",
    .constraints = "rank(input_indices) == 2; rank(input_shape) == 1; rank(new_shape) == 1; dim(input_indices, 1) == "
                   "dim(input_shape, 0)",
    .doc = "The indices of the same elements in another shape, of which one dim may be -1.",
    .shape = ShapeFunction<SparseReshapeShape>,
});

static void FillEmptyRowsShape(ShapeContext& c) {
  const Shape indices = c.WithRank(0, 2), values = c.WithRank(1, 1), dense = c.WithRank(2, 1);
  c.WithRank(3, 0);
  const int64_t count = c.Merge(indices[0], values[0], "the numbers of indices and of values");
  const int64_t rank = c.Merge(indices[1], dense[0], "the columns of indices and the numbers of dense_shape");
  const Shape shape = c.InputAsShape(2);
  c.SetOutput(0, {kUnknown, rank});
  c.SetOutput(1, {kUnknown});
  c.SetOutput(2, {shape.rank() > 0 ? shape[0] : kUnknown});
  c.SetOutput(3, {count});
}

static void FillEmptyRowsGradient(GradientContext& g) {
  const int64_t node = g.Node("SparseFillEmptyRowsGrad", {g.output(3), g.dy(1)});
  g.SetDx(1, {node, 0, 0});
  g.SetDx(3, {node, 1, 0});
}

TENON_OP(kSparseFillEmptyRows) = DefineOp({
    .name = "SparseFillEmptyRows",
    .inputs = "indices: int64, values: T, dense_shape: int64, default_value: T",
    .outputs = "output_indices: int64, output_values: T, empty_row_indicator: bool, reverse_index_map: int64",
    .attrs = "T: type",
    .constraints = "rank(indices) == 2; rank(values) == 1; rank(dense_shape) == 1; rank(default_value) == 0; "
                   "dim(indices, 0) == dim(values, 0); "
                   "dim(indices, 1) == dim(dense_shape, 0); element(indices) >= 0",
    .doc = "The sparse tensor with default_value in the first place of each row that has nothing; and where each value "
           "went.",
    .shape = ShapeFunction<FillEmptyRowsShape>,
    .gradient = GradientFunction<FillEmptyRowsGradient>,
});

static void FillEmptyRowsGradShape(ShapeContext& c) {
  const Shape map = c.WithRank(0, 1);
  c.WithRank(1, 1);
  c.SetOutput(0, map);
  c.SetOutput(1, Shape::Scalar());
}

TENON_OP(kSparseFillEmptyRowsGrad) = DefineOp({
    .name = "SparseFillEmptyRowsGrad",
    .inputs = "reverse_index_map: int64, grad_values: T",
    .outputs = "d_values: T, d_default_value: T",
    .attrs = "T: type",
    .constraints = "rank(reverse_index_map) == 1; rank(grad_values) == 1; element(reverse_index_map) >= 0; "
                   "element(reverse_index_map) < dim(grad_values, 0)",
    .doc = "The gradients of SparseFillEmptyRows with respect to values and default_value.",
    .shape = ShapeFunction<FillEmptyRowsGradShape>,
});

}  // namespace tenon::ops
