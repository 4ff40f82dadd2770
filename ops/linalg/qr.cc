// SPDX-License-Identifier: Apache-2.0
// Qr: an orthonormal matrix times an upper triangle.
#include <Eigen/QR>

#include "matrix.h"
#include "nodes.h"

namespace tenon::ops {
using namespace sdk;
using namespace linalg;

namespace {

struct QrKernel {
  explicit QrKernel(CreateContext& c) : full(c.Bool("full_matrices")) {}
  void Run(RunContext c) const {
    const Stack stack = Stack::Of(c.input_view(0));
    const int64_t width = full ? stack.rows : std::min(stack.rows, stack.columns);
    Stored::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      ForEachMatrix(c, stack.count, std::max(stack.rows, stack.columns), [&](int64_t i) {
        T* const q = c.output<T>(0) + i * stack.rows * width;
        if (stack.size() == 0) return Store(Matrix<T>::Identity(stack.rows, width), q);
        const Eigen::HouseholderQR<Matrix<T>> factors(Load<T>(c, 0, stack, i));
        const Matrix<T> thin = factors.householderQ() * Matrix<T>::Identity(stack.rows, width);
        Store(thin, q);
        const Matrix<T> upper = factors.matrixQR().topRows(width).template triangularView<Eigen::Upper>();
        Store(upper, c.output<T>(1) + i * width * stack.columns);
      });
    });
  }
  bool full;
};

void QrShape(ShapeContext& c) {
  const Shape input = c.WithRankAtLeast(0, 2);
  if (!input.known_rank()) return;
  const int64_t rows = input[-2], columns = input[-1];
  const int64_t width = c.Bool("full_matrices") ? rows : rows < 0 || columns < 0 ? kUnknown : std::min(rows, columns);
  c.SetOutput(0, Join(input.Slice(0, -1), Shape{width}));
  c.SetOutput(1, Join(input.Slice(0, -2), Shape{width, columns}));
}

// x adjoint(r)^-1, of an upper triangle r.
Output RightSolve(GradientContext& g, Output x, Output r) {
  return Adjoint(g, g.Op("MatrixTriangularSolve", {r, Adjoint(g, x)}, {{"lower", false}, {"adjoint", false}}));
}

// Of a matrix with no more columns than rows; the rules are Roberts and Roberts's (2020).
Output TallGradient(GradientContext& g, Output q, Output r, Output dq, Output dr) {
  const Output qdq = Product(g, q, true, dq, false), rdr = Product(g, r, false, dr, true);
  const Output skew = g.Add(g.Sub(qdq, Adjoint(g, qdq)), g.Sub(rdr, Adjoint(g, rdr)));
  const Output inside = Product(g, q, g.Add(dr, RightSolve(g, Band(g, skew, -1, 0), r)));
  const Output dx = g.Add(inside, RightSolve(g, g.Sub(dq, Product(g, q, qdq)), r));
  if (!IsComplex(g.type(q))) return dx;
  // The phases of the diagonal, which the factorization chose.
  const Output diagonal = DiagonalOf(g, g.Sub(rdr, Adjoint(g, qdq)));
  const Output phases = g.Sub(diagonal, g.Cast(RealPart(g, diagonal), g.type(q)));
  return g.Add(dx, RightSolve(g, Product(g, q, false, DiagonalMatrix(g, phases), true), r));
}

void QrGradient(GradientContext& g) {
  const Output a = g.input(0), q = g.output(0), r = g.output(1);
  const Shape shape = g.shape(a);
  const bool full = g.Bool("full_matrices");
  if (full && shape[-2] > shape[-1] && shape[-1] >= 0)
    return g.Fail(TENON_UNIMPLEMENTED,
                  "no gradient of Qr with full_matrices of matrices of more rows than columns: which columns complete "
                  "q is nowhere said. Without full_matrices there is one");
  if (full && (shape[-2] < 0 || shape[-1] < 0))
    return g.Fail(
        TENON_UNIMPLEMENTED,
        "no gradient of Qr with full_matrices where rows and columns are not known before a step; the shape is ",
        shape);
  if (shape[-1] >= 0 && shape[-2] >= shape[-1]) return g.SetDx(0, TallGradient(g, q, r, g.dy(0), g.dy(1)));
  // The columns beyond a square are no more than q times theirs of r. There may be none of them.
  const Output side = SizeOf(g, r, -2), dr = g.dy(1);
  const Output beyond = Part(g, a, -1, side, std::nullopt), dbeyond = Part(g, dr, -1, side, std::nullopt);
  const Output dq = g.Add(g.dy(0), Product(g, beyond, false, dbeyond, true));
  const Output dsquare =
      TallGradient(g, q, Part(g, r, -1, std::nullopt, side), dq, Part(g, dr, -1, std::nullopt, side));
  g.SetDx(0, g.Concat({dsquare, Product(g, q, dbeyond)}, -1));
}

}  // namespace

TENON_KERNEL(kQrKernel) = Registration<QrKernel>("Qr", {.constraints = Constraints<Stored::Constraint<"T">>::list});

TENON_OP(kQr) = DefineOp({
    .name = "Qr",
    .inputs = "input: T",
    .outputs = "q: T, r: T",
    .attrs = "full_matrices: bool = false; T: {double, float, half, complex64, complex128}",
    .constraints = "rank(input) >= 2",
    .doc = "q with orthonormal columns and an upper triangle r whose product is the input; with full_matrices q is "
           "square.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<QrShape>,
    .gradient = GradientFunction<QrGradient>,
});

}  // namespace tenon::ops
