// SPDX-License-Identifier: Apache-2.0
// SparseTensorDenseMatMul: a sparse matrix times a dense one.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void SparseMatMulShape(ShapeContext& c) {
  const Shape indices = c.WithRank(0, 2), values = c.WithRank(1, 1), sizes = c.WithRank(2, 1), b = c.WithRank(3, 2);
  c.Merge(indices[0], values[0], "the numbers of a_indices and of a_values");
  c.Merge(indices[1], 2, "the columns of a_indices and 2");
  c.Merge(sizes[0], 2, "the numbers of a_shape and 2");
  const Shape a = c.InputAsShape(2);
  const bool ta = c.Bool("adjoint_a"), tb = c.Bool("adjoint_b");
  if (a.rank() == 2) c.Merge(a[ta ? 0 : 1], b[tb ? 1 : 0], "the inner dims");
  c.SetOutput(0, {a.rank() == 2 ? a[ta ? 1 : 0] : kUnknown, b[tb ? 0 : 1]});
}

// Of a's values: the row of dy times the row of b that each stands between.
static void SparseMatMulGradient(GradientContext& g) {
  const Output indices = g.input(0), b = g.input(3), dy = g.dy(0);
  const bool ta = g.Bool("adjoint_a"), tb = g.Bool("adjoint_b");
  const auto adjoint = [&](Output x) { return g.Op("Transpose", {g.Conj(x), g.Vector({1, 0})}); };
  const Output db = g.Op("SparseTensorDenseMatMul", {indices, g.input(1), g.input(2), dy},
                         {{"adjoint_a", !ta}, {"adjoint_b", false}});
  g.SetDx(3, tb ? adjoint(db) : db);
  const auto column = [&](int64_t i) { return g.Op("GatherV2", {indices, g.Number(i), g.Number(1)}); };
  const auto rows = [&](Output x, int64_t i) { return g.Op("GatherV2", {x, column(i), g.Number(0)}); };
  const Output of_dy = rows(dy, ta ? 1 : 0), of_b = rows(tb ? adjoint(b) : b, ta ? 0 : 1);
  const Output products = ta ? g.Mul(g.Conj(of_dy), of_b) : g.Mul(of_dy, g.Conj(of_b));
  g.SetDx(1, g.Sum(products, g.Vector({1})));
}

TENON_OP(kSparseTensorDenseMatMul) = DefineOp({
    .name = "SparseTensorDenseMatMul",
    .inputs = "a_indices: Tindices, a_values: T, a_shape: int64, b: T",
    .outputs = "product: T",
    .attrs = "T: type; Tindices: {int32, int64} = int64; adjoint_a: bool = false; adjoint_b: bool = false",
    .constraints =
        "rank(a_indices) == 2; rank(a_values) == 1; rank(a_shape) == 1; dim(a_shape, 0) == 2; rank(b) == 2; "
        "dim(a_indices, 0) == dim(a_values, 0); dim(a_indices, 1) == 2; value(a_shape) >= 0; element(a_indices) >= 0",
    .doc = "The product of a sparse matrix, as indices, values and shape, and a dense one, each perhaps adjoint.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<SparseMatMulShape>,
    .gradient = GradientFunction<SparseMatMulGradient>,
});

}  // namespace tenon::ops
