// SPDX-License-Identifier: Apache-2.0
// SelfAdjointEigV2 and SelfAdjointEig: eigenvalues and eigenvectors of Hermitian matrices.
#include <Eigen/Eigenvalues>

#include "matrix.h"
#include "nodes.h"

namespace tenon::ops {
using namespace sdk;
using namespace linalg;

namespace {

struct SelfAdjointEigKernel {
  explicit SelfAdjointEigKernel(CreateContext& c) : vectors(c.Bool("compute_v")) {}
  void Run(RunContext c) const {
    const Stack stack = Stack::OfSquare(c.input_view(0));
    if (stack.size() == 0) return;
    Stored::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      ForEachMatrix(c, stack.count, 2 * stack.rows, [&](int64_t i) {
        const Eigen::SelfAdjointEigenSolver<PreciseMatrix<T>> factors(
            LoadPrecise<T>(c, 0, stack, i), vectors ? Eigen::ComputeEigenvectors : Eigen::EigenvaluesOnly);
        if (factors.info() != Eigen::Success)
          Fail(TENON_INVALID_ARGUMENT, "Self-adjoint eigen decomposition was not successful: that of matrix ", i,
               " does not converge. Is all of it finite?");
        StorePrecise(factors.eigenvalues(), c.output<T>(0) + i * stack.rows);
        if (vectors) StorePrecise(factors.eigenvectors(), c.output<T>(1) + i * stack.size());
      });
    });
  }
  bool vectors;
};

void EigShape(ShapeContext& c) {
  const Shape shape = SquareShape(c, 0);
  c.SetOutput(0, shape.known_rank() ? shape.Slice(0, -1) : Shape());
  c.SetOutput(1, c.Bool("compute_v") ? shape : Shape{0});
}

// v (diag(de) + gaps * v^H dv) v^H, of which the lower triangle has all, because it alone was read.
void SelfAdjointEigGradient(GradientContext& g) {
  const bool vectors = g.Bool("compute_v");
  Output v = g.output(1);
  if (!vectors) v = {g.Node("SelfAdjointEigV2", {g.input(0)}, {{"compute_v", true}}), 1, 0};
  Output middle = DiagonalMatrix(g, g.dy(0));
  if (vectors && g.has_dy(1))
    middle = g.Add(middle, g.Mul(ReciprocalGaps(g, g.output(0)), Product(g, v, true, g.dy(1), false)));
  const Output dx = Product(g, v, false, Product(g, v, false, middle, true), true);
  const Output lower = Band(g, g.Add(dx, Adjoint(g, dx)), -1, 0);
  g.SetDx(0, WithDiagonal(g, lower, Halved(g, DiagonalOf(g, lower))));
}

// The values as a row above the vectors.
void DecomposeSelfAdjointEig(DecomposeContext& d) {
  const int64_t eig = d.Node("SelfAdjointEigV2", {d.input(0)}, {{"compute_v", true}});
  d.SetOutput(0, d.Concat({d.ExpandDims({eig, 0, 0}, -2), {eig, 1, 0}}, -2));
}
void SelfAdjointEigShape(ShapeContext& c) {
  Shape shape = SquareShape(c, 0);
  shape.Set(-2, c.Add(shape[-2], 1));
  c.SetOutput(0, shape);
}

}  // namespace

TENON_KERNEL(kSelfAdjointEigV2Kernel) =
    Registration<SelfAdjointEigKernel>("SelfAdjointEigV2", {.constraints = Constraints<Stored::Constraint<"T">>::list});

TENON_OP(kSelfAdjointEigV2) = DefineOp({
    .name = "SelfAdjointEigV2",
    .inputs = "input: T",
    .outputs = "e: T, v: T",
    .attrs = "compute_v: bool = true; T: {double, float, half, complex64, complex128}",
    .constraints = "rank(input) >= 2; dim(input, -1) == dim(input, -2)",
    .doc = "Eigenvalues, the smallest first, and the eigenvectors, which are v's columns, of the Hermitian matrices "
           "whose lower triangles are the input's.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<EigShape>,
    .gradient = GradientFunction<SelfAdjointEigGradient>,
});

TENON_OP(kSelfAdjointEig) = DefineOp({
    .name = "SelfAdjointEig",
    .inputs = "input: T",
    .outputs = "output: T",
    .attrs = "T: {double, float, half}",
    .constraints = "rank(input) >= 2; dim(input, -1) == dim(input, -2)",
    .doc = "What SelfAdjointEigV2 gives, the eigenvalues as a row above the eigenvectors.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<SelfAdjointEigShape>,
    .decompose = DecomposeFunction<DecomposeSelfAdjointEig>,
    .deprecated_at = 11,
    .deprecation = "Use SelfAdjointEigV2 instead.",
});

}  // namespace tenon::ops
