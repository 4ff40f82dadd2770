// SPDX-License-Identifier: Apache-2.0
// Svd: singular values and vectors.
#include <Eigen/SVD>

#include "matrix.h"
#include "nodes.h"

namespace tenon::ops {
using namespace sdk;
using namespace linalg;

namespace {

// Of a matrix with no more columns than rows. It becomes bidiagonal and real, so that the rest is compiled once.
template <class Number>
struct TallSvd {
  using Numbers = Eigen::Matrix<Number, Eigen::Dynamic, Eigen::Dynamic>;
  // width: how many of the longer vectors.
  TallSvd(const Numbers& matrix, bool vectors, int64_t width) {
    const int64_t n = matrix.cols();
    Eigen::internal::UpperBidiagonalization<Numbers> outer(matrix);
    const Eigen::MatrixXd inside = outer.bidiagonal().toDenseMatrix().topRows(n);
    const Eigen::BDCSVD<Eigen::MatrixXd> inner(inside, vectors ? Eigen::ComputeFullU | Eigen::ComputeFullV : 0);
    values = inner.singularValues();
    if (!vectors) return;
    long_side = Numbers::Identity(matrix.rows(), width);
    long_side.topLeftCorner(n, n) = inner.matrixU().template cast<Number>();
    long_side.applyOnTheLeft(outer.householderU());
    short_side = inner.matrixV().template cast<Number>();
    short_side.applyOnTheLeft(outer.householderV());
  }
  Eigen::VectorXd values;
  Numbers long_side, short_side;  // vectors, as columns
};

struct SvdKernel {
  explicit SvdKernel(CreateContext& c) : vectors(c.Bool("compute_uv")), full(c.Bool("full_matrices")) {}
  void Run(RunContext c) const {
    const Stack stack = Stack::Of(c.input_view(0));
    const int64_t count = std::min(stack.rows, stack.columns);
    const int64_t left = full ? stack.rows : count, right = full ? stack.columns : count;
    Stored::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      ForEachMatrix(c, stack.count, 2 * std::max(stack.rows, stack.columns), [&](int64_t i) {
        T* const s = c.output<T>(0) + i * count;
        T* const u = vectors ? c.output<T>(1) + i * stack.rows * left : nullptr;
        T* const v = vectors ? c.output<T>(2) + i * stack.columns * right : nullptr;
        if (stack.size() == 0) {
          if (!vectors) return;
          Store(Matrix<T>::Identity(stack.rows, left), u);
          return Store(Matrix<T>::Identity(stack.columns, right), v);
        }
        const PreciseMatrix<T> matrix = LoadPrecise<T>(c, 0, stack, i);
        if (!matrix.allFinite()) {  // of which Eigen computes nothing
          const auto none = T(std::numeric_limits<RealOf<T>>::quiet_NaN());
          std::fill_n(s, count, none);
          if (!vectors) return;
          std::fill_n(u, stack.rows * left, none);
          std::fill_n(v, stack.columns * right, none);
          return;
        }
        const bool wide = stack.rows < stack.columns;
        const TallSvd<Precise<T>> factors(wide ? PreciseMatrix<T>(matrix.adjoint()) : matrix, vectors,
                                          wide ? right : left);
        StorePrecise(factors.values, s);
        if (!vectors) return;
        StorePrecise(wide ? factors.short_side : factors.long_side, u);
        StorePrecise(wide ? factors.long_side : factors.short_side, v);
      });
    });
  }
  bool vectors, full;
};

void SvdShape(ShapeContext& c) {
  const Shape input = c.WithRankAtLeast(0, 2);
  const bool vectors = c.Bool("compute_uv"), full = c.Bool("full_matrices");
  if (!vectors) {
    c.SetOutput(1, {0});
    c.SetOutput(2, {0});
  }
  if (!input.known_rank()) return;
  const int64_t rows = input[-2], columns = input[-1];
  const int64_t count = rows < 0 || columns < 0 ? kUnknown : std::min(rows, columns);
  const Shape batch = input.Slice(0, -2);
  c.SetOutput(0, Join(batch, Shape{count}));
  if (!vectors) return;
  c.SetOutput(1, Join(batch, Shape{rows, full ? rows : count}));
  c.SetOutput(2, Join(batch, Shape{columns, full ? columns : count}));
}

// What the part of vectors outside of the others' span gives: (dv1^H (1 - v1 v1^H) - (v1^H dv2) v2^H), of as many rows
// as v1 has columns. v2, dv2: what completes v1, if anything.
Output Outside(GradientContext& g, Output v1, Output dv1, std::optional<Output> v2, std::optional<Output> dv2) {
  const Output gv1 = Adjoint(g, dv1);
  const Output outside = g.Sub(gv1, Product(g, Product(g, gv1, v1), false, v1, true));
  if (!v2.has_value()) return outside;
  return g.Sub(outside, Product(g, Product(g, v1, true, *dv2, false), false, *v2, true));
}

// Townsend's rules (2016). Where singular values are equal their vectors are anybody's, and these have no gradient: the
// reciprocal of their gap is taken for 0.
void SvdGradient(GradientContext& g) {
  const Output a = g.input(0);
  const Shape shape = g.shape(a);
  const bool vectors = g.Bool("compute_uv"), full = g.Bool("full_matrices");
  if (!vectors || (!g.has_dy(1) && !g.has_dy(2))) {
    int64_t svd = -1;
    if (!vectors || full) svd = g.Node("Svd", {a}, {{"compute_uv", true}});
    const Output u = svd < 0 ? g.output(1) : Output{svd, 1, 0}, v = svd < 0 ? g.output(2) : Output{svd, 2, 0};
    return g.SetDx(0, Product(g, u, false, Product(g, v, false, DiagonalMatrix(g, g.dy(0)), true), true));
  }
  const int64_t rows = shape[-2], columns = shape[-1];
  if (full && (rows < 0 || columns < 0))
    return g.Fail(TENON_UNIMPLEMENTED,
                  "no gradient of Svd's vectors with full_matrices where rows and columns are not known before a step; "
                  "the shape is ",
                  shape);
  if (full && std::abs(rows - columns) > 1)
    return g.Fail(TENON_UNIMPLEMENTED,
                  "no gradient of Svd with full_matrices where rows and columns differ by more than 1 (the shape is ",
                  shape, "): which vectors complete the others is nowhere said. Without full_matrices there is one");
  const Output s = g.output(0);
  const auto first = [&](Output x) {
    return full && rows != columns ? Part(g, x, -1, std::nullopt, SizeOf(g, s, -1)) : x;
  };
  const auto others = [&](Output x, bool has) {
    return has ? std::optional(Part(g, x, -1, SizeOf(g, s, -1), std::nullopt)) : std::nullopt;
  };
  const Output u = first(g.output(1)), v = first(g.output(2)), du = first(g.dy(1)), dv = first(g.dy(2));
  const Output gaps = ReciprocalGaps(g, g.Mul(s, s)), values = DiagonalMatrix(g, s),
               inverses = DiagonalMatrix(g, SafeReciprocal(g, s));
  const Output udu = Product(g, u, true, du, false), vdv = Product(g, v, true, dv, false);
  const auto twice = [&](Output x) { return g.Add(x, Adjoint(g, x)); };
  Output middle = g.Add(DiagonalMatrix(g, g.dy(0)), g.Add(Product(g, twice(g.Mul(gaps, udu)), values),
                                                          Product(g, values, twice(g.Mul(gaps, vdv)))));
  if (IsComplex(g.type(a))) {
    // The phases of the vectors, which the factorization chose: as if the longer side's did not count.
    const bool tall = rows > columns && columns >= 0;
    const Output diagonal = DiagonalOf(g, tall ? udu : vdv);
    const Output phases = tall ? g.Sub(diagonal, g.Conj(diagonal)) : g.Sub(g.Conj(diagonal), diagonal);
    middle = g.Add(middle, Halved(g, DiagonalMatrix(g, g.Mul(SafeReciprocal(g, s), phases))));
  }
  Output dx = Product(g, u, false, Product(g, v, false, middle, true), true);
  if (rows < 0 || columns < 0 || rows < columns) {
    const bool more = full && rows < columns;
    const Output outside = Outside(g, v, dv, others(g.output(2), more), more ? others(g.dy(2), true) : std::nullopt);
    dx = g.Add(dx, Product(g, Product(g, u, inverses), outside));
  }
  if (rows < 0 || columns < 0 || rows > columns) {
    const bool more = full && rows > columns;
    const Output outside = Outside(g, u, du, others(g.output(1), more), more ? others(g.dy(1), true) : std::nullopt);
    dx = g.Add(dx, Product(g, outside, true, Product(g, v, inverses), true));
  }
  g.SetDx(0, dx);
}

}  // namespace

TENON_KERNEL(kSvdKernel) = Registration<SvdKernel>("Svd", {.constraints = Constraints<Stored::Constraint<"T">>::list});

TENON_OP(kSvd) = DefineOp({
    .name = "Svd",
    .inputs = "input: T",
    .outputs = "s: T, u: T, v: T",
    .attrs = "compute_uv: bool = true; full_matrices: bool = false; T: {double, float, half, complex64, complex128}",
    .constraints = "rank(input) >= 2",
    .doc = "Singular values, the largest first, and left and right vectors, such that u diag(s) adjoint(v) is the "
           "input; with full_matrices u and v are square.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<SvdShape>,
    .gradient = GradientFunction<SvdGradient>,
});

}  // namespace tenon::ops
