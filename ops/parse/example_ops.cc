// SPDX-License-Identifier: Apache-2.0
// What the ops of Examples mean.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

Shape Prepended(int64_t dim, const Shape& shape) {
  if (!shape.known_rank()) return Shape();
  std::vector<int64_t> dims = shape.dims();
  dims.insert(dims.begin(), dim);
  return Shape(dims);
}

// batch: the shape of serialized, a scalar or a vector, or unknown.
void SetShapes(ShapeContext& c, const Shape& batch, int sparse, int ragged) {
  const std::vector<Shape> dense_shapes = c.Shapes("dense_shapes");
  const size_t dense = c.Types("Tdense").size();
  if (dense_shapes.size() != dense)
    return c.Invalid("there are ", dense_shapes.size(), " dense_shapes and ", dense, " types of Tdense");
  const bool known = batch.known_rank();
  const int64_t rank = known ? batch.rank() + 1 : -1;
  int output = 0;
  for (int i = 0; i < sparse; ++i) c.SetOutput(output++, Shape({-1, rank}));
  for (int i = 0; i < sparse; ++i) c.SetOutput(output++, Shape::OfRank(1));
  for (int i = 0; i < sparse; ++i) c.SetOutput(output++, Shape({rank}));
  for (size_t i = 0; i < dense; ++i) {
    const Shape& shape = dense_shapes[i];
    bool inner = shape.known_rank();
    for (int d = 1; inner && d < shape.rank(); ++d) inner = shape[d] >= 0;
    if (!inner)
      return c.Invalid("dense_shapes[", i, "] is ", shape, "; its rank must be known, and its dims but the first");
    c.SetOutput(output++, !known ? Shape() : batch.rank() == 0 ? shape : Prepended(batch[0], shape));
  }
  for (int i = 0; i < ragged; ++i) c.SetOutput(output++, Shape::OfRank(1));
  for (int i = 0; i < ragged; ++i) {
    if (!known) c.SetOutput(output++, Shape::OfRank(1));
    else c.SetOutput(output++, Shape({batch.rank() == 0 ? 0 : c.Add(batch[0], 1)}));
  }
}

}  // namespace

static void ParseExampleShape(ShapeContext& c) {
  const Shape batch = c.WithRank(0, 1);
  c.WithRank(1, 1);
  SetShapes(c, batch, static_cast<int>(c.Int("Nsparse")), 0);
}

TENON_OP(kParseExample) = DefineOp({
    .name = "ParseExample",
    .inputs = "serialized: string, names: string, sparse_keys: Nsparse * string, dense_keys: Ndense * string, "
              "dense_defaults: Tdense",
    .outputs = "sparse_indices: Nsparse * int64, sparse_values: sparse_types, sparse_shapes: Nsparse * int64, "
               "dense_values: Tdense",
    .attrs = "Nsparse: int >= 0; Ndense: int >= 0; sparse_types: list({float, int64, string}); Tdense: list({float, "
             "int64, string}); dense_shapes: list(shape)",
    .constraints = "rank(serialized) == 1; rank(names) == 1",
    .doc = "A batch of serialized Examples as tensors: each feature that is named as a sparse or a dense one.",
    .traits = TENON_OP_EXPENSIVE | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ParseExampleShape>,
});

static void ParseExampleV2Shape(ShapeContext& c) {
  const Shape batch = c.WithRankAtMost(0, 1);
  c.WithRankAtMost(1, 1);
  c.WithRank(2, 1);
  c.WithRank(3, 1);
  c.WithRank(4, 1);
  SetShapes(c, batch, static_cast<int>(c.Int("num_sparse")), static_cast<int>(c.Types("ragged_value_types").size()));
}

TENON_OP(kParseExampleV2) = DefineOp({
    .name = "ParseExampleV2",
    .inputs = "serialized: string, names: string, sparse_keys: string, dense_keys: string, ragged_keys: string, "
              "dense_defaults: Tdense",
    .outputs = "sparse_indices: num_sparse * int64, sparse_values: sparse_types, sparse_shapes: num_sparse * int64, "
               "dense_values: Tdense, ragged_values: ragged_value_types, "
               "ragged_row_splits: ragged_split_types",
    .attrs = "Tdense: list({float, int64, string}); num_sparse: int >= 0; sparse_types: list({float, int64, string}); "
             "ragged_value_types: list({float, int64, string}); ragged_split_types: list({int32, int64}); "
             "dense_shapes: list(shape)",
    .constraints = "rank(serialized) <= 1; rank(names) <= 1; rank(sparse_keys) == 1; rank(dense_keys) == 1; "
                   "rank(ragged_keys) == 1",
    .doc = "A batch of serialized Examples, or one, as tensors: each feature that is named as a sparse, a dense or a "
           "ragged one.",
    .traits = TENON_OP_EXPENSIVE | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ParseExampleV2Shape>,
});

static void ParseSingleExampleShape(ShapeContext& c) {
  c.WithRank(0, 0);
  SetShapes(c, Shape::Scalar(), static_cast<int>(c.Int("num_sparse")), 0);
}

TENON_OP(kParseSingleExample) = DefineOp({
    .name = "ParseSingleExample",
    .inputs = "serialized: string, dense_defaults: Tdense",
    .outputs = "sparse_indices: num_sparse * int64, sparse_values: sparse_types, sparse_shapes: num_sparse * int64, "
               "dense_values: Tdense",
    .attrs = "num_sparse: int >= 0; sparse_keys: list(string); dense_keys: list(string); sparse_types: list({float, "
             "int64, string}); "
             "Tdense: list({float, int64, string}); dense_shapes: list(shape)",
    .constraints = "rank(serialized) == 0",
    .doc = "One serialized Example as tensors.",
    .traits = TENON_OP_EXPENSIVE | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ParseSingleExampleShape>,
});

}  // namespace tenon::ops
