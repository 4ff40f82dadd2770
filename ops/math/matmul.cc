// SPDX-License-Identifier: Apache-2.0
// Matrix products: MatMul of two matrices, BatchMatMul of stacks of them, in three versions.
#include "tenon/extras/op/batch_gradient.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void MatMulShape(ShapeContext& c) {
  const Shape a = c.WithRank(0, 2), b = c.WithRank(1, 2);
  const bool ta = c.Bool("transpose_a"), tb = c.Bool("transpose_b");
  c.Merge(a[ta ? 0 : 1], b[tb ? 1 : 0], "the inner dims");
  c.SetOutput(0, {a[ta ? 1 : 0], b[tb ? 0 : 1]});
}

static void MatMulGradient(GradientContext& g) {
  const Output a = g.Conj(g.input(0)), b = g.Conj(g.input(1)), dy = g.dy(0);
  const auto product = [&](Output x, bool tx, Output y, bool ty) {
    return g.Op("MatMul", {x, y}, {{"transpose_a", tx}, {"transpose_b", ty}});
  };
  const bool ta = g.Bool("transpose_a"), tb = g.Bool("transpose_b");
  g.SetDx(0, ta ? product(b, tb, dy, true) : product(dy, false, b, !tb));
  g.SetDx(1, tb ? product(dy, true, a, ta) : product(a, !ta, dy, false));
}

static void MatMulCost(CostContext& c) {
  const Shape a = c.Input(0);
  const double inner = static_cast<double>(a[c.Bool("transpose_a") ? 0 : 1]);
  c.SetFlops(2.0 * inner * CostContext::Elements(c.Output(0)));
}

TENON_OP(kMatMul) = DefineOp({
    .name = "MatMul",
    .inputs = "a: T, b: T",
    .outputs = "product: T",
    .attrs = "transpose_a: bool = false; transpose_b: bool = false; T: {bfloat16, half, float, double, int32, int64, "
             "uint8, uint16, uint32, uint64, complex64, complex128}; grad_a: bool = false; grad_b: bool = false",
    .constraints = "rank(a) == 2; rank(b) == 2",
    .doc = "The product of two matrices, each of which may be transposed first.",
    .properties = "product(a, b), fits_half",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<MatMulShape>,
    .gradient = GradientFunction<MatMulGradient>,
    .cost = CostFunction<MatMulCost>,
});

// Without broadcasting.
static void PlainBatchMatMulShape(ShapeContext& c) {
  const Shape x = c.WithRankAtLeast(0, 2), y = c.WithRankAtLeast(1, 2);
  const bool ax = c.Bool("adj_x"), ay = c.Bool("adj_y");
  c.Merge(x[ax ? -2 : -1], y[ay ? -1 : -2], "the inner dims");
  const Shape batch = c.Merge(x.Slice(0, -2), y.Slice(0, -2), "the batch dims");
  c.SetOutput(0, Join(batch, Shape{x[ax ? -1 : -2], y[ay ? -2 : -1]}));
}

static void BatchMatMulShape(ShapeContext& c) {
  const Shape x = c.WithRankAtLeast(0, 2), y = c.WithRankAtLeast(1, 2);
  if (!x.known_rank() || !y.known_rank()) return;
  const bool ax = c.Bool("adj_x"), ay = c.Bool("adj_y");
  c.Merge(x[ax ? -2 : -1], y[ay ? -1 : -2], "the inner dims");
  const Shape batch = c.Broadcast(x.Slice(0, -2), y.Slice(0, -2));
  c.SetOutput(0, Join(batch, Shape{x[ax ? -1 : -2], y[ay ? -2 : -1]}));
}

// An adjoint is conjugated already, so that complex numbers need nothing more.
static void BatchMatMulGradient(GradientContext& g) {
  const Output dy = g.dy(0);
  // The third version multiplies two types into a third, in which its gradient is computed.
  const Output x = g.Cast(g.input(0), g.type(dy)), y = g.Cast(g.input(1), g.type(dy));
  const auto product = [&](Output p, bool ap, Output q, bool aq) {
    return g.Op("BatchMatMulV2", {p, q}, {{"adj_x", ap}, {"adj_y", aq}});
  };
  const bool ax = g.Bool("adj_x"), ay = g.Bool("adj_y");
  const Output dx = UnbroadcastBatch(g, ax ? product(y, ay, dy, true) : product(dy, false, y, !ay), x, y);
  const Output db = UnbroadcastBatch(g, ay ? product(dy, true, x, ax) : product(x, !ax, dy, false), y, x);
  g.SetDx(0, g.Cast(dx, g.type(g.input(0))));
  g.SetDx(1, g.Cast(db, g.type(g.input(1))));
}

static void BatchMatMulCost(CostContext& c) {
  const Shape x = c.Input(0);
  const double inner = static_cast<double>(x[c.Bool("adj_x") ? -2 : -1]);
  c.SetFlops(2.0 * inner * CostContext::Elements(c.Output(0)));
}

TENON_OP(kBatchMatMul) = DefineOp({
    .name = "BatchMatMul",
    .inputs = "x: T, y: T",
    .outputs = "output: T",
    .attrs = "T: {bfloat16, half, float, double, int32, int64, complex64, complex128}; adj_x: bool = false; "
             "adj_y: bool = false; grad_x: bool = false; grad_y: bool = false",
    .constraints = "rank(x) >= 2; rank(y) == rank(x)",
    .doc = "The products of the matrices in the last two dims, each perhaps adjoint; the other dims are the same.",
    .properties = "product(x, y), fits_half",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<PlainBatchMatMulShape>,
    .gradient = GradientFunction<BatchMatMulGradient>,
    .cost = CostFunction<BatchMatMulCost>,
});

TENON_OP(kBatchMatMulV3) = DefineOp({
    .name = "BatchMatMulV3",
    .inputs = "x: Ta, y: Tb",
    .outputs = "output: Tout",
    .attrs = "Ta: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128}; "
             "Tb: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128}; "
             "Tout: {bfloat16, half, float, double, int16, int32, int64, complex64, complex128}; adj_x: bool = false; "
             "adj_y: bool = false; grad_x: bool = false; grad_y: bool = false",
    .constraints = "rank(x) >= 2; rank(y) >= 2",
    .doc = "As BatchMatMulV2, of two element types, summed in a third.",
    .properties = "product(x, y), fits_half",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<BatchMatMulShape>,
    .gradient = GradientFunction<BatchMatMulGradient>,
    .cost = CostFunction<BatchMatMulCost>,
});

TENON_OP(kBatchMatMulV2) = DefineOp({
    .name = "BatchMatMulV2",
    .inputs = "x: T, y: T",
    .outputs = "output: T",
    .attrs = "T: {bfloat16, half, float, double, int16, int32, int64, uint8, uint16, uint32, uint64, complex64, "
             "complex128}; adj_x: bool = false; adj_y: bool = false; grad_x: bool = false; grad_y: bool = false",
    .constraints = "rank(x) >= 2; rank(y) >= 2",
    .doc = "The products of the matrices in the last two dims, each perhaps adjoint; the other dims broadcast.",
    .properties = "product(x, y), fits_half",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<BatchMatMulShape>,
    .gradient = GradientFunction<BatchMatMulGradient>,
    .cost = CostFunction<BatchMatMulCost>,
});

}  // namespace tenon::ops
