// SPDX-License-Identifier: Apache-2.0
// TridiagonalSolve and TridiagonalMatMul: matrices that are three diagonals.
#include <array>
#include <vector>

#include "matrix.h"
#include "nodes.h"

namespace tenon::ops {
using namespace sdk;
using namespace linalg;

namespace {

// Rows of the compact form: above the diagonal (its last element is not read), the diagonal, below it (its first is not
// read).
template <class T>
struct ThreeDiagonals {
  const T *above, *main, *below;
  int64_t n;
};

template <class T>
class Elimination {
 public:
  using Real = RealOf<T>;
  Elimination(const ThreeDiagonals<T>& a, bool perturb) : a_(a), perturb_(perturb) {
    Real largest = 0;
    for (int64_t i = 0; i < a.n; ++i) {
      Real row = std::abs(a.main[i]);
      if (i + 1 < a.n) row += std::abs(a.above[i]);
      if (i > 0) row += std::abs(a.below[i]);
      largest = std::max(largest, row);
    }
    least_ = std::numeric_limits<Real>::epsilon() * largest;
  }

  // Both are false where a pivot is 0, and leave x half-way then.
  // Without exchanges of rows: Thomas's.
  bool Plain(Rows<T>& x) {
    std::vector<T> factors(static_cast<size_t>(a_.n));
    for (int64_t i = 0; i < a_.n; ++i) {
      T pivot = a_.main[i];
      if (i > 0) pivot -= a_.below[i] * factors[static_cast<size_t>(i - 1)];
      if (pivot == T(0)) return false;
      if (i > 0) x.row(i) -= a_.below[i] * x.row(i - 1);
      x.row(i) /= pivot;
      if (i + 1 < a_.n) factors[static_cast<size_t>(i)] = a_.above[i] / pivot;
    }
    for (int64_t i = a_.n - 2; i >= 0; --i) x.row(i) -= factors[static_cast<size_t>(i)] * x.row(i + 1);
    return true;
  }

  // With the larger one of two rows first, so that the upper triangle has two diagonals above the main one.
  bool Pivoted(Rows<T>& x) {
    const int64_t n = a_.n;
    std::vector<std::array<T, 3>> upper(static_cast<size_t>(n));
    upper[0] = {a_.main[0], n > 1 ? a_.above[0] : T(0), T(0)};
    for (int64_t i = 0; i + 1 < n; ++i) {
      auto &row = upper[static_cast<size_t>(i)], &next = upper[static_cast<size_t>(i + 1)];
      const T beyond = i + 2 < n ? a_.above[i + 1] : T(0);
      if (std::abs(row[0]) >= std::abs(a_.below[i + 1])) {
        if (!Settle(row[0])) return false;
        const T factor = a_.below[i + 1] / row[0];
        next = {a_.main[i + 1] - factor * row[1], beyond, T(0)};
        x.row(i + 1) -= factor * x.row(i);
      } else {
        const T factor = row[0] / a_.below[i + 1];
        const T above = row[1];
        row = {a_.below[i + 1], a_.main[i + 1], beyond};
        next = {above - factor * a_.main[i + 1], -factor * beyond, T(0)};
        x.row(i).swap(x.row(i + 1));
        x.row(i + 1) -= factor * x.row(i);
      }
    }
    if (!Settle(upper[static_cast<size_t>(n - 1)][0])) return false;
    for (int64_t i = n - 1; i >= 0; --i) {
      const auto& row = upper[static_cast<size_t>(i)];
      if (i + 1 < n) x.row(i) -= row[1] * x.row(i + 1);
      if (i + 2 < n) x.row(i) -= row[2] * x.row(i + 2);
      x.row(i) /= row[0];
    }
    return true;
  }

 private:
  bool Settle(T& pivot) const {
    if (perturb_ && std::abs(pivot) <= least_) pivot += std::real(pivot) >= 0 ? T(least_) : T(-least_);
    return pivot != T(0);
  }

  const ThreeDiagonals<T> a_;
  const bool perturb_;
  Real least_;  // beside which a pivot is 0
};

struct TridiagonalSolve {
  explicit TridiagonalSolve(CreateContext& c)
      : pivoting(c.Bool("partial_pivoting")), perturb(c.Bool("perturb_singular")) {
    if (perturb && !pivoting) c.Invalid("Setting perturb_singular requires partial_pivoting");
  }
  void Run(RunContext c) const {
    const Stack diagonals = Stack::Of(c.input_view(0)), right = Stack::Of(c.input_view(1));
    CheckOneBatch(diagonals, right);
    if (diagonals.rows != 3)
      Fail(TENON_INVALID_ARGUMENT, "Expected diagonals to have 3 rows; there are ", diagonals.rows);
    if (diagonals.columns != right.rows)
      Fail(TENON_INVALID_ARGUMENT, "diagonals of ", diagonals.columns, " elements and a rhs of ", right.rows, " rows");
    const int64_t n = diagonals.columns;
    if (right.size() == 0) return;
    Computed::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      c.ParallelFor(right.count, 100 + 20.0 * static_cast<double>(right.size()), [&](int64_t begin, int64_t end) {
        const AsksFor asks(c);
        for (int64_t i = begin; i < end; ++i) {
          const T* const from = c.input<T>(0) + i * diagonals.size();
          Rows<T> x(right.rows, right.columns);
          InPieces(right.rows, right.columns, [&](int64_t row, int64_t count) {
            x.middleRows(row, count) =
                Eigen::Map<const Rows<T>>(c.input<T>(1) + i * right.size() + row * right.columns, count, right.columns);
          });
          Elimination<T> elimination({from, from + n, from + 2 * n, n}, perturb);
          if (!(pivoting ? elimination.Pivoted(x) : elimination.Plain(x)))
            x.setConstant(std::numeric_limits<RealOf<T>>::quiet_NaN());
          Store(x, c.output<T>(0) + i * right.size());
        }
      });
    });
  }
  bool pivoting, perturb;
};

struct TridiagonalMatMul {
  void Run(RunContext c) const {
    const Stack right = Stack::Of(c.input_view(3));
    const int64_t n = right.rows;
    for (int32_t k = 0; k < 3; ++k) {
      const Stack diagonal = Stack::Of(c.input_view(k));
      CheckOneBatch(diagonal, right);
      if (diagonal.rows != 1 || diagonal.columns != n)
        Fail(TENON_INVALID_ARGUMENT, "input ", k, " must be a row of ", n, " elements for each matrix; its shape is ",
             DimsOf(c.input_view(k)));
    }
    if (right.size() == 0) return;
    Computed::Dispatch(c.input_view(3).dtype, [&]<class T>(Tag<T>) {
      const int64_t width = right.columns;
      c.ParallelFor(right.count * n, 5 + 1.5 * static_cast<double>(width), [&](int64_t begin, int64_t end) {
        for (int64_t at = begin; at < end; ++at) {
          const int64_t row = at % n;
          const T* const x = c.input<T>(3) + at * width;
          T* const y = c.output<T>(0) + at * width;
          const T above = c.input<T>(0)[at], main = c.input<T>(1)[at], below = c.input<T>(2)[at];
          for (int64_t k = 0; k < width; ++k) {
            T sum = main * x[k];
            if (row + 1 < n) sum += above * x[k + width];
            if (row > 0) sum += below * x[k - width];
            y[k] = sum;
          }
        }
      });
    });
  }
};

// ---- Gradients ----

// Rows (dim -2) or elements (dim -1) moved one place towards the front or the back, with zeros behind or before them.
Output Forward(GradientContext& g, Output x, int dim) {
  return g.Concat(
      {Part(g, x, dim, g.Vector({1}), std::nullopt), g.ZerosLike(Part(g, x, dim, std::nullopt, g.Vector({1})))}, dim);
}
Output Backward(GradientContext& g, Output x, int dim) {
  return g.Concat(
      {g.ZerosLike(Part(g, x, dim, std::nullopt, g.Vector({1}))), Part(g, x, dim, std::nullopt, g.Vector({-1}))}, dim);
}

// The three diagonals of dy x^H, each a row.
std::array<Output, 3> DiagonalsOfProduct(GradientContext& g, Output dy, Output x) {
  const Output conjugate = g.Conj(x);
  const auto row = [&](Output factor) { return g.ExpandDims(g.Sum(g.Mul(factor, dy), g.Number(-1)), -2); };
  return {row(Forward(g, conjugate, -2)), row(conjugate), row(Backward(g, conjugate, -2))};
}

void TridiagonalSolveGradient(GradientContext& g) {
  const Output diagonals = g.Conj(g.input(0));
  const auto row = [&](int64_t k) { return Part(g, diagonals, -2, g.Vector({k}), g.Vector({k + 1})); };
  const Output adjoint = g.Concat({Forward(g, row(2), -1), row(1), Backward(g, row(0), -1)}, -2);
  const Output right =
      g.Op("TridiagonalSolve", {adjoint, g.dy(0)},
           {{"partial_pivoting", g.Bool("partial_pivoting")}, {"perturb_singular", g.Bool("perturb_singular")}});
  const auto parts = DiagonalsOfProduct(g, right, g.output(0));
  g.SetDx(0, g.Neg(g.Concat({parts[0], parts[1], parts[2]}, -2)));
  g.SetDx(1, right);
}

void TridiagonalMatMulGradient(GradientContext& g) {
  const Output dy = g.dy(0);
  const auto parts = DiagonalsOfProduct(g, dy, g.input(3));
  for (int k = 0; k < 3; ++k) g.SetDx(k, parts[static_cast<size_t>(k)]);
  const auto column = [&](int k) { return Transpose(g, g.Conj(g.input(k))); };
  const Output above = Backward(g, g.Mul(column(0), dy), -2), below = Forward(g, g.Mul(column(2), dy), -2);
  g.SetDx(3, g.Add(g.Add(above, g.Mul(column(1), dy)), below));
}

// ---- Shapes ----

void TridiagonalSolveShape(ShapeContext& c) {
  const Shape diagonals = c.WithRankAtLeast(0, 2), right = c.WithRankAtLeast(1, 2);
  const Shape batch = c.Merge(diagonals.Slice(0, -2), right.Slice(0, -2), "the batch dims");
  c.Merge(diagonals[-2], 3, "the number of diagonals and 3");
  c.SetOutput(0, Join(batch, Shape{c.Merge(diagonals[-1], right[-2], "the elements of diagonals and the rows of rhs"),
                                   right[-1]}));
}
void TridiagonalMatMulShape(ShapeContext& c) {
  const Shape right = c.WithRankAtLeast(3, 2);
  Shape batch = right.Slice(0, -2);
  int64_t rows = right[-2];
  for (int k = 0; k < 3; ++k) {
    const Shape diagonal = c.WithRankAtLeast(k, 2);
    batch = c.Merge(batch, diagonal.Slice(0, -2), "the batch dims");
    c.Merge(diagonal[-2], 1, "the rows of a diagonal and 1");
    rows = c.Merge(rows, diagonal[-1], "the elements of a diagonal and the rows of rhs");
  }
  c.SetOutput(0, Join(batch, Shape{rows, right[-1]}));
}

}  // namespace

TENON_KERNEL(kTridiagonalSolveKernel) =
    Registration<TridiagonalSolve>("TridiagonalSolve", {.constraints = Constraints<Computed::Constraint<"T">>::list});
TENON_KERNEL(kTridiagonalMatMulKernel) =
    Registration<TridiagonalMatMul>("TridiagonalMatMul", {.constraints = Constraints<Computed::Constraint<"T">>::list});

TENON_OP(kTridiagonalSolve) = DefineOp({
    .name = "TridiagonalSolve",
    .inputs = "diagonals: T, rhs: T",
    .outputs = "output: T",
    .attrs = "partial_pivoting: bool = true; perturb_singular: bool = false; T: {double, float, complex64, complex128}",
    .constraints = "rank(diagonals) >= 2; rank(rhs) == rank(diagonals); dim(diagonals, -2) == 3; dim(diagonals, -1) == "
                   "dim(rhs, -2)",
    .doc = "The x of a x = rhs, of which a's diagonals are rows: that above the main one, the main one, that below it. "
           "perturb_singular: pivots that are 0 beside the largest row are made a little larger; else x is NaN where a "
           "pivot is 0.",
    .shape = ShapeFunction<TridiagonalSolveShape>,
    .gradient = GradientFunction<TridiagonalSolveGradient>,
});

TENON_OP(kTridiagonalMatMul) = DefineOp({
    .name = "TridiagonalMatMul",
    .inputs = "superdiag: T, maindiag: T, subdiag: T, rhs: T",
    .outputs = "output: T",
    .attrs = "T: {double, float, complex64, complex128}",
    .constraints =
        "rank(rhs) >= 2; rank(superdiag) == rank(rhs); rank(maindiag) == rank(rhs); rank(subdiag) == rank(rhs)",
    .doc = "The matrix of these three diagonals times rhs; the last element of superdiag and the first of subdiag are "
           "not read.",
    .shape = ShapeFunction<TridiagonalMatMulShape>,
    .gradient = GradientFunction<TridiagonalMatMulGradient>,
});

}  // namespace tenon::ops
