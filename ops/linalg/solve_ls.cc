// SPDX-License-Identifier: Apache-2.0
// MatrixSolveLs: least squares, and the shortest solution where there are many.
#include <Eigen/Cholesky>
#include <Eigen/QR>

#include "matrix.h"
#include "nodes.h"

namespace tenon::ops {
using namespace sdk;
using namespace linalg;

namespace {

struct SolveLs {
  explicit SolveLs(CreateContext& c) : fast(c.Bool("fast")) {}
  void Run(RunContext c) const {
    const Stack stack = Stack::Of(c.input_view(0)), right = Stack::Of(c.input_view(1));
    CheckOneBatch(stack, right);
    if (stack.rows != right.rows)
      Fail(TENON_INVALID_ARGUMENT, "Input matrix and rhs are incompatible: ", stack.rows, " and ", right.rows, " rows");
    const double regularizer = *c.input<double>(2);
    const int64_t size = stack.columns * right.columns;
    if (size == 0 || stack.count == 0) return;
    if (!(regularizer >= 0)) Fail(TENON_INVALID_ARGUMENT, "l2_regularizer must be >= 0; it is ", regularizer);
    Stored::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      ForEachMatrix(c, stack.count, std::max(stack.rows, stack.columns), [&](int64_t i) {
        T* const out = c.output<T>(0) + i * size;
        if (stack.rows == 0) return Store(Matrix<T>::Zero(stack.columns, right.columns), out);
        const Matrix<T> matrix = Load<T>(c, 0, stack, i), rhs = Load<T>(c, 1, right, i);
        if (!fast) {
          // Whose rank is that which the given numbers have, not that of doubles.
          Eigen::CompleteOrthogonalDecomposition<PreciseMatrix<T>> factors;
          factors.setThreshold(static_cast<double>(Eigen::NumTraits<sdk::Wide<T>>::epsilon()) *
                               static_cast<double>(std::min(stack.rows, stack.columns)));
          factors.compute(matrix.template cast<Precise<T>>());
          return StorePrecise(PreciseMatrix<T>(factors.solve(rhs.template cast<Precise<T>>())), out);
        }
        // The normal equations: of the columns where there are no more of them than rows, else of the rows.
        const bool tall = stack.rows >= stack.columns;
        Matrix<T> gramian = tall ? Matrix<T>(matrix.adjoint() * matrix) : Matrix<T>(matrix * matrix.adjoint());
        gramian.diagonal().array() += sdk::Wide<T>(static_cast<RealOf<T>>(regularizer));
        const Eigen::LLT<Matrix<T>> factors(gramian);
        if (factors.info() != Eigen::Success)
          Fail(TENON_INVALID_ARGUMENT, "Input matrix was rank deficient or ill-conditioned: matrix ", i,
               ". Try fast = false, or a larger l2_regularizer");
        if (tall) Store(factors.solve(matrix.adjoint() * rhs), out);
        else Store(matrix.adjoint() * factors.solve(rhs), out);
      });
    });
  }
  bool fast;
};

void SolveLsShape(ShapeContext& c) {
  const Shape matrix = c.WithRankAtLeast(0, 2), right = c.WithRankAtLeast(1, 2);
  c.WithRank(2, 0);
  c.Merge(matrix[-2], right[-2], "the rows of matrix and of rhs");
  c.SetOutput(0,
              Join(c.Merge(matrix.Slice(0, -2), right.Slice(0, -2), "the batch dims"), Shape{matrix[-1], right[-1]}));
}

struct Both {
  Output matrix, right;
};

// The Cholesky factor of a^H a + l, or of a a^H + l.
Output Factor(GradientContext& g, Output a, bool of_columns) {
  const Output gramian = Product(g, a, of_columns, a, !of_columns);
  const Output diagonal = DiagonalOf(g, gramian);
  return g.Op("Cholesky", {WithDiagonal(g, gramian, g.Add(diagonal, g.Cast(g.input(2), g.type(a))))});
}
Output SolveBy(GradientContext& g, Output factor, Output right) {
  const auto solve = [&](Output x, bool adjoint) {
    return g.Op("MatrixTriangularSolve", {factor, x}, {{"lower", true}, {"adjoint", adjoint}});
  };
  return solve(solve(right, false), true);
}

// x = (a^H a + l)^-1 a^H b
Both Tall(GradientContext& g, Output a, Output b, Output x, Output dy) {
  const Output z = SolveBy(g, Factor(g, a, true), dy);
  const Output xz = Product(g, x, false, z, true);
  return {g.Sub(Product(g, b, false, z, true), Product(g, a, g.Add(xz, Adjoint(g, xz)))), Product(g, a, z)};
}
// x = a^H (a a^H + l)^-1 b
Both Wide(GradientContext& g, Output a, Output b, Output dy) {
  const Output factor = Factor(g, a, false);
  const Output right = SolveBy(g, factor, Product(g, a, dy)), solved = SolveBy(g, factor, b);
  const Output rest = g.Sub(dy, Product(g, a, true, right, false));
  return {g.Sub(Product(g, solved, false, rest, true), Product(g, right, Product(g, solved, true, a, false))), right};
}

void SolveLsGradient(GradientContext& g) {
  if (!g.Bool("fast"))
    return g.Fail(TENON_UNIMPLEMENTED,
                  "no gradient of MatrixSolveLs with fast = false: a matrix whose rank is not full has none");
  const Output a = g.input(0), b = g.input(1), x = g.output(0), dy = g.dy(0);
  const Shape shape = g.shape(a);
  const auto set = [&](Output matrix, Output right) {
    g.SetDx(0, matrix);
    g.SetDx(1, right);
  };
  if (shape[-1] >= 0 && shape[-2] >= 0) {
    const Both both = shape[-2] >= shape[-1] ? Tall(g, a, b, x, dy) : Wide(g, a, b, dy);
    return set(both.matrix, both.right);
  }
  // Which of them, a step finds out.
  const Output is_tall = g.Reshape(g.Op("GreaterEqual", {SizeOf(g, a, -2), SizeOf(g, a, -1)}), g.Vector({}));
  const auto when = [&](Output value) { return g.Node("Switch", {value, is_tall}); };
  const int64_t as = when(a), bs = when(b), xs = when(x), dys = when(dy);
  const Both tall = Tall(g, {as, 1, 0}, {bs, 1, 0}, {xs, 1, 0}, {dys, 1, 0}),
             wide = Wide(g, {as, 0, 0}, {bs, 0, 0}, {dys, 0, 0});
  const auto merged = [&](Output one, Output other) { return g.Op("Merge", {one, other}, {{"N", 2}}); };
  set(merged(wide.matrix, tall.matrix), merged(wide.right, tall.right));
}

}  // namespace

TENON_KERNEL(kMatrixSolveLsKernel) = Registration<SolveLs>("MatrixSolveLs",
                                                           {.constraints = Constraints<Stored::Constraint<"T">>::list});

TENON_OP(kMatrixSolveLs) = DefineOp({
    .name = "MatrixSolveLs",
    .inputs = "matrix: T, rhs: T, l2_regularizer: double",
    .outputs = "output: T",
    .attrs = "T: {double, float, half, complex64, complex128}; fast: bool = true",
    .constraints =
        "rank(matrix) >= 2; rank(rhs) == rank(matrix); dim(matrix, -2) == dim(rhs, -2); rank(l2_regularizer) == 0",
    .doc = "The x with the smallest |matrix x - rhs|^2 + l2_regularizer |x|^2, or where rows are fewer than columns "
           "the shortest x. fast: by the normal equations, which lose half "
           "of the digits and need full rank; else by an orthogonal decomposition, without the regularizer.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<SolveLsShape>,
    .gradient = GradientFunction<SolveLsGradient>,
});

}  // namespace tenon::ops
