// SPDX-License-Identifier: Apache-2.0
// Cholesky and CholeskyGrad.
#include <Eigen/Cholesky>

#include "matrix.h"
#include "nodes.h"

namespace tenon::ops {
using namespace sdk;
using namespace linalg;

namespace {

struct CholeskyKernel {
  void Run(RunContext c) const {
    const Stack stack = Stack::OfSquare(c.input_view(0));
    if (stack.size() == 0) return;
    Stored::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      ForEachMatrix(c, stack.count, stack.rows, [&](int64_t i) {
        const Eigen::LLT<Matrix<T>> factors(Load<T>(c, 0, stack, i));
        Matrix<T> lower = factors.matrixL();
        // As TensorFlow says that a matrix is not positive definite.
        if (factors.info() != Eigen::Success)
          lower.template triangularView<Eigen::Lower>().setConstant(std::numeric_limits<RealOf<T>>::quiet_NaN());
        Store(lower, c.output<T>(0) + i * stack.size());
      });
    });
  }
};

// l^-H P(l^H dl) l^-1, made Hermitian, where P takes the lower triangle with half of the diagonal. Triangles above l's
// are not read.
Output InputGradient(NodeBuilder& g, Output l, Output dl) {
  const Output product = Product(g, l, true, dl, false);
  const Output middle = Band(g, WithDiagonal(g, product, Halved(g, DiagonalOf(g, product))), -1, 0);
  const auto solve = [&](Output x) {
    return g.Op("MatrixTriangularSolve", {l, x}, {{"lower", true}, {"adjoint", true}});
  };
  return HermitianPart(g, solve(Adjoint(g, solve(middle))));
}

void CholeskyGradient(GradientContext& g) { g.SetDx(0, InputGradient(g, g.output(0), g.dy(0))); }

void DecomposeCholeskyGrad(DecomposeContext& d) {
  d.SetOutput(0, InputGradient(d, Band(d, d.input(0), -1, 0), Band(d, d.input(1), -1, 0)));
}

void CholeskyGradShape(ShapeContext& c) {
  c.SetOutput(0, c.Merge(SquareShape(c, 0), SquareShape(c, 1), "the shapes of l and grad"));
}

}  // namespace

TENON_KERNEL(kCholeskyKernel) =
    Registration<CholeskyKernel>("Cholesky", {.constraints = Constraints<Stored::Constraint<"T">>::list});

TENON_OP(kCholesky) = DefineOp({
    .name = "Cholesky",
    .inputs = "input: T",
    .outputs = "output: T",
    .attrs = "T: {double, float, half, complex64, complex128}",
    .constraints = "rank(input) >= 2; dim(input, -1) == dim(input, -2)",
    .doc = "The lower L with a positive diagonal such that L adjoint(L) is the Hermitian matrix whose lower triangle "
           "is the input's. Of one that is not positive definite, a triangle of NaN.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<SameSquareShape>,
    .gradient = GradientFunction<CholeskyGradient>,
});

TENON_OP(kCholeskyGrad) = DefineOp({
    .name = "CholeskyGrad",
    .inputs = "l: T, grad: T",
    .outputs = "output: T",
    .attrs = "T: {half, float, double}",
    .constraints = "rank(l) >= 2; rank(grad) == rank(l); dim(l, -1) == dim(l, -2); dim(grad, -1) == dim(grad, -2)",
    .doc = "The gradient of Cholesky's input when that of its output l is grad; of both the lower triangles are read.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<CholeskyGradShape>,
    .decompose = DecomposeFunction<DecomposeCholeskyGrad>,
});

}  // namespace tenon::ops
