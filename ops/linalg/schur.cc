// SPDX-License-Identifier: Apache-2.0
// What is computed through Schur's triangle of complex numbers: Eig, MatrixLogarithm, MatrixSquareRoot.
//
// Eigen's logarithm takes square roots until a matrix is near 1, for ever where it never is (one that has no logarithm,
// or whose roots are not finite). So the roots are counted here.
#include <Eigen/Eigenvalues>
#include <unsupported/Eigen/MatrixFunctions>

#include "matrix.h"
#include "nodes.h"

namespace tenon::ops {
using namespace sdk;
using namespace linalg;

namespace {

using Complexes = Eigen::MatrixXcd;

// ---- Eigenvalues ----

template <class T>
using ComplexOf = std::complex<RealOf<T>>;

struct EigKernel {
  explicit EigKernel(CreateContext& c) : vectors(c.Bool("compute_v")) {
    if (c.output_type(0) != (c.input_type(0) == TENON_DT_FLOAT || c.input_type(0) == TENON_DT_COMPLEX64
                                 ? TENON_DT_COMPLEX64
                                 : TENON_DT_COMPLEX128))
      c.Invalid("Tout must be the complex type of the input's precision: eigenvalues of ", TypeName(c.input_type(0)),
                " are not ", TypeName(c.output_type(0)));
  }
  void Run(RunContext c) const {
    const Stack stack = Stack::OfSquare(c.input_view(0));
    if (stack.size() == 0) return;
    Computed::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      using Number = ComplexOf<T>;
      ForEachMatrix(c, stack.count, 3 * stack.rows, [&](int64_t i) {
        const Complexes matrix = LoadAs<std::complex<double>, T>(c, 0, stack, i);
        const Eigen::ComplexEigenSolver<Complexes> factors(matrix, vectors);
        if (factors.info() != Eigen::Success || !matrix.allFinite())
          Fail(TENON_INVALID_ARGUMENT, "Eigen decomposition was not successful: that of matrix ", i,
               " does not converge. Is all of it finite?");
        StorePrecise(factors.eigenvalues(), c.output<Number>(0) + i * stack.rows);
        if (vectors) StorePrecise(factors.eigenvectors(), c.output<Number>(1) + i * stack.size());
      });
    });
  }
  bool vectors;
};

// ---- Functions ----

Complexes RootOfTriangle(const Complexes& triangle) {
  Complexes root = Complexes::Zero(triangle.rows(), triangle.cols());
  Eigen::matrix_sqrt_triangular(triangle, root);
  return root;
}

// Gauss and Legendre's points in [0, 1]: log(1 + x) is the integral of x / (1 + t x), and seven points are exact to a
// double's precision for |x| < 1/4.
struct Point {
  double at, weight;
};
constexpr Point kPoints[] = {{0.025446043828620737, 0.064742483084434846}, {0.129234407200302780, 0.139852695744638334},
                             {0.297077424311301417, 0.190915025252559473}, {0.5, 0.208979591836734694},
                             {0.702922575688698583, 0.190915025252559473}, {0.870765592799697220, 0.139852695744638334},
                             {0.974553956171379263, 0.064742483084434846}};
constexpr double kNear = 0.25;
constexpr int kMostRoots = 2200;  // each brings the exponent of an element halfway to 0

// The principal logarithm of scale times an upper triangle; false where it has none, or is not found.
bool LogOfTriangle(Complexes& triangle, double scale) {
  const Eigen::VectorXcd values = triangle.diagonal();
  const Complexes one = Complexes::Identity(triangle.rows(), triangle.cols());
  if ((values.array() == 0.0).any()) return false;
  int roots = 0;
  for (; (triangle - one).cwiseAbs().colwise().sum().maxCoeff() >= kNear; ++roots) {
    if (roots == kMostRoots || !triangle.allFinite()) return false;
    triangle = RootOfTriangle(triangle);
  }
  if (!triangle.allFinite()) return false;
  const Complexes rest = triangle - one;
  Complexes sum = Complexes::Zero(triangle.rows(), triangle.cols());
  for (const Point& point : kPoints) {
    const Complexes divisor = one + point.at * rest;
    sum += point.weight * divisor.template triangularView<Eigen::Upper>().solve(rest);
  }
  triangle = sum * std::ldexp(1.0, roots);
  // The roots of what was near 1 have lost their last digits; the diagonal is known exactly.
  triangle.diagonal() = (values.array().log() + std::log(scale)).matrix();
  return true;
}

// function(triangle, scale) makes a function of scale times a matrix of the matrix's triangle, and says whether there
// is one; where there is none, all is NaN.
template <class T, class Function>
void ApplyToTriangles(const RunContext& c, const Function& function) {
  const Stack stack = Stack::OfSquare(c.input_view(0));
  if (stack.size() == 0) return;
  ForEachMatrix(c, stack.count, 4 * stack.rows, [&](int64_t i) {
    const Complexes matrix = LoadAs<std::complex<double>, T>(c, 0, stack, i);
    T* const out = c.output<T>(0) + i * stack.size();
    if (matrix.allFinite()) {
      // Squares of elements must be numbers.
      const double largest = matrix.cwiseAbs().maxCoeff(),
                   scale = largest > 1e100 || (largest < 1e-100 && largest > 0) ? largest : 1;
      const Eigen::ComplexSchur<Complexes> schur(matrix / scale);
      if (schur.info() != Eigen::Success)
        Fail(TENON_INVALID_ARGUMENT, "the Schur decomposition of matrix ", i, " does not converge");
      Complexes triangle = schur.matrixT();
      if (function(triangle, scale)) {
        const Complexes result = schur.matrixU() * triangle * schur.matrixU().adjoint();
        if constexpr (kIsComplex<T>) return StorePrecise(result, out);
        else return StorePrecise(result.real(), out);
      }
    }
    std::fill_n(out, stack.size(), T(std::numeric_limits<RealOf<T>>::quiet_NaN()));
  });
}

struct Logarithm {
  void Run(RunContext c) const {
    Types<std::complex<float>, std::complex<double>>::Dispatch(
        c.input_view(0).dtype, [&]<class T>(Tag<T>) { ApplyToTriangles<T>(c, LogOfTriangle); });
  }
};

struct SquareRoot {
  void Run(RunContext c) const {
    Stored::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      ApplyToTriangles<T>(c, [](Complexes& triangle, double scale) {
        // The root of a negative number is not real.
        const double nothing =
            triangle.cwiseAbs().maxCoeff() * static_cast<double>(Eigen::NumTraits<RealOf<T>>::epsilon());
        if (!kIsComplex<T> &&
            (triangle.diagonal().real().array() < -nothing && triangle.diagonal().imag().array().abs() <= nothing)
                .any())
          return false;
        triangle = RootOfTriangle(triangle) * std::sqrt(scale);
        return true;
      });
    });
  }
};

// ---- Shapes and gradients ----

void GeneralEigShape(ShapeContext& c) {
  const Shape shape = SquareShape(c, 0);
  c.SetOutput(0, shape.known_rank() ? shape.Slice(0, -1) : Shape());
  c.SetOutput(1, c.Bool("compute_v") ? shape : Shape{0});
}

// v^-H (diag(de) + conj(gaps) * (v^H dv - v^H v diag(real(v^H dv)))) v^H, for vectors of length 1 and values that
// differ.
void EigGradient(GradientContext& g) {
  const bool vectors = g.Bool("compute_v");
  const uint32_t dtype = g.Type("Tout");
  Output v = g.output(1);
  if (!vectors) v = {g.Node("Eig", {g.input(0)}, {{"compute_v", true}, Attribute::Type("Tout", dtype)}), 1, 0};
  const Output adjoint = Adjoint(g, v);
  Output middle = DiagonalMatrix(g, g.dy(0));
  if (vectors && g.has_dy(1)) {
    const Output vdv = Product(g, adjoint, g.dy(1));
    const Output real = RealPart(g, DiagonalOf(g, vdv));
    const Output lengths = Product(g, Product(g, adjoint, v), DiagonalMatrix(g, g.Cast(real, dtype)));
    middle = g.Add(middle, g.Mul(g.Conj(ReciprocalGaps(g, g.output(0))), g.Sub(vdv, lengths)));
  }
  g.SetDx(0, g.Cast(g.Op("MatrixSolve", {adjoint, Product(g, middle, adjoint)}), g.type(g.input(0))));
}

// Stacks of products a[i, j] b, of square matrices of `side` rows: [..., side, side] and as many become [..., side^2,
// side^2]. One of the two may have no batch dims.
Output Kronecker(GradientContext& g, Output a, Output b, Output batch, Output side) {
  const Output one = g.Vector({1});
  const Output rows = g.Reshape(a, g.Concat({g.VectorSlice(g.ShapeOf(a), 0, -2), side, one, side, one}));
  const Output others = g.Reshape(b, g.Concat({g.VectorSlice(g.ShapeOf(b), 0, -2), one, side, one, side}));
  const Output all = g.Mul(side, side);
  return g.Reshape(g.Mul(rows, others), g.Concat({batch, all, all}));
}

// Of r r = a: r dr + dr r = da, a linear equation in as many unknowns as r has elements.
void SquareRootGradient(GradientContext& g) {
  const Output root = g.output(0), conjugate = g.Conj(root);
  const Output shape = g.ShapeOf(root), batch = g.VectorSlice(shape, 0, -2), side = SizeOf(g, root, -1);
  const Output ones = g.Op("Fill", {side, g.Scalar(1, root)}), eye = DiagonalMatrix(g, ones);
  const Output equations =
      g.Add(Kronecker(g, eye, Transpose(g, conjugate), batch, side), Kronecker(g, conjugate, eye, batch, side));
  const Output column = g.Reshape(Transpose(g, g.dy(0)), g.Concat({batch, g.Mul(side, side), g.Vector({1})}));
  const Output solved = g.Op("MatrixSolve", {equations, column});
  g.SetDx(0, Transpose(g, g.Reshape(solved, shape)));
}

}  // namespace

TENON_KERNEL(kEigKernel) = Registration<EigKernel>("Eig",
                                                   {.constraints = Constraints<Computed::Constraint<"T">>::list});
TENON_KERNEL(kMatrixLogarithmKernel) = Registration<Logarithm>(
    "MatrixLogarithm", {.constraints = Constraints<Allowed<"T", TENON_DT_COMPLEX64, TENON_DT_COMPLEX128>>::list});
TENON_KERNEL(kMatrixSquareRootKernel) =
    Registration<SquareRoot>("MatrixSquareRoot", {.constraints = Constraints<Stored::Constraint<"T">>::list});

TENON_OP(kEig) = DefineOp({
    .name = "Eig",
    .inputs = "input: T",
    .outputs = "e: Tout, v: Tout",
    .attrs = "compute_v: bool = true; T: {float, double, complex64, complex128}; Tout: {complex64, complex128}",
    .constraints = "rank(input) >= 2; dim(input, -1) == dim(input, -2)",
    .doc = "Eigenvalues in no order, and the eigenvectors, which are v's columns, each of length 1.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<GeneralEigShape>,
    .gradient = GradientFunction<EigGradient>,
});

TENON_OP(kMatrixLogarithm) = DefineOp({
    .name = "MatrixLogarithm",
    .inputs = "input: T",
    .outputs = "output: T",
    .attrs = "T: {complex64, complex128}",
    .constraints = "rank(input) >= 2; dim(input, -1) == dim(input, -2)",
    .doc = "The principal logarithms of square matrices: what MatrixExponential makes the matrices of. NaN where there "
           "is none, because a matrix is singular.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<SameSquareShape>,
});

TENON_OP(kMatrixSquareRoot) = DefineOp({
    .name = "MatrixSquareRoot",
    .inputs = "input: T",
    .outputs = "output: T",
    .attrs = "T: {double, float, half, complex64, complex128}",
    .constraints = "rank(input) >= 2; dim(input, -1) == dim(input, -2)",
    .doc = "The principal square roots of square matrices: r r is the input. A real matrix with a negative eigenvalue "
           "has none, and gives NaN.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<SameSquareShape>,
    .gradient = GradientFunction<SquareRootGradient>,
});

}  // namespace tenon::ops
