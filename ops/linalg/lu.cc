// SPDX-License-Identifier: Apache-2.0
// What is computed through L and U with rows exchanged: Lu, MatrixInverse, MatrixDeterminant, LogMatrixDeterminant,
// MatrixSolve.
#include <Eigen/LU>

#include "matrix.h"
#include "nodes.h"

namespace tenon::ops {
using namespace sdk;
using namespace linalg;

namespace {

template <class T>
using Factors = Eigen::PartialPivLU<Matrix<T>>;

// Where a pivot is exactly 0 there is no inverse, nor where the first one is no number; nothing is said of matrices
// that nearly have none.
template <class T>
void CheckPivots(const Factors<T>& factors, std::string_view what) {
  const auto& lu = factors.matrixLU();
  for (int64_t i = 0; i < lu.rows(); ++i)
    if (i == 0 ? !(std::abs(lu(i, i)) > 0) : lu(i, i) == sdk::Wide<T>(0))
      Fail(TENON_INVALID_ARGUMENT, what, " is not invertible: pivot ", i, " is ", std::abs(lu(i, i)));
}

struct Inverse {
  explicit Inverse(CreateContext& c) : adjoint(c.Bool("adjoint")) {}
  void Run(RunContext c) const {
    const Stack stack = Stack::OfSquare(c.input_view(0));
    if (stack.size() == 0) return;
    Stored::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      ForEachMatrix(c, stack.count, stack.rows, [&](int64_t i) {
        Matrix<T> matrix = Load<T>(c, 0, stack, i);
        if (adjoint) matrix.adjointInPlace();
        const Factors<T> factors(matrix);
        CheckPivots<T>(factors, "Input");
        Store(factors.inverse(), c.output<T>(0) + i * stack.size());
      });
    });
  }
  bool adjoint;
};

struct Solve {
  explicit Solve(CreateContext& c) : adjoint(c.Bool("adjoint")) {}
  void Run(RunContext c) const {
    const Stack stack = Stack::OfSquare(c.input_view(0)), right = Stack::Of(c.input_view(1));
    CheckOneBatch(stack, right);
    if (stack.rows != right.rows)
      Fail(TENON_INVALID_ARGUMENT, "Input matrix and rhs are incompatible: ", stack.rows, " and ", right.rows, " rows");
    if (right.size() == 0) return;
    Stored::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      ForEachMatrix(c, stack.count, stack.rows, [&](int64_t i) {
        Matrix<T> matrix = Load<T>(c, 0, stack, i);
        if (adjoint) matrix.adjointInPlace();
        const Factors<T> factors(matrix);
        CheckPivots<T>(factors, "Input matrix");
        Store(factors.solve(Load<T>(c, 1, right, i)), c.output<T>(0) + i * right.size());
      });
    });
  }
  bool adjoint;
};

struct PackedFactors {
  void Run(RunContext c) const {
    const Stack stack = Stack::OfSquare(c.input_view(0));
    if (stack.size() == 0) return;
    Stored::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      ForEachMatrix(c, stack.count, stack.rows, [&](int64_t i) {
        const Factors<T> factors(Load<T>(c, 0, stack, i));
        CheckPivots<T>(factors, "Input");
        Store(factors.matrixLU(), c.output<T>(0) + i * stack.size());
        // Row k of L U is row order[k] of the input.
        const Eigen::PermutationMatrix<Eigen::Dynamic> order = factors.permutationP().transpose();
        for (int64_t row = 0; row < stack.rows; ++row) {
          if (c.output_view(1).dtype == TENON_DT_INT64)
            c.output<int64_t>(1)[i * stack.rows + row] = order.indices()(row);
          else c.output<int32_t>(1)[i * stack.rows + row] = order.indices()(row);
        }
      });
    });
  }
};

// Sign and logarithm apart, so that neither overflows: of a singular matrix 0 and -infinity.
template <class T>
struct Determinant {
  using Number = sdk::Wide<T>;
  explicit Determinant(const Matrix<T>& matrix) {
    if (matrix.size() == 0) return;
    const Factors<T> factors(matrix);
    sign = Number(static_cast<RealOf<T>>(factors.permutationP().determinant()));
    const auto& lu = factors.matrixLU();
    for (int64_t i = 0; i < lu.rows(); ++i) {
      const Number factor = lu(i, i);
      const RealOf<T> size = std::abs(factor);
      log_size += std::log(size);
      if (factor == Number(0)) sign = Number(0);
      else if constexpr (kIsComplex<Number>) sign *= factor / size;
      else sign *= std::isnan(factor) ? factor : std::copysign(Number(1), factor);
    }
  }
  Number sign = Number(1);
  RealOf<T> log_size = 0;
};

template <bool kLog>
struct DeterminantKernel {
  void Run(RunContext c) const {
    const Stack stack = Stack::OfSquare(c.input_view(0));
    Stored::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      ForEachMatrix(c, stack.count, stack.rows, [&](int64_t i) {
        const Determinant<T> determinant(Load<T>(c, 0, stack, i));
        if (kLog) {
          c.output<T>(0)[i] = T(determinant.sign);
          c.output<T>(1)[i] = T(determinant.log_size);
        } else {
          c.output<T>(0)[i] = T(determinant.sign * std::exp(determinant.log_size));
        }
      });
    });
  }
};

// ---- Gradients ----

// d(inverse) = -inverse da inverse.
void InverseGradient(GradientContext& g) {
  const Output inverse = g.output(0);
  const bool adjoint = g.Bool("adjoint");
  g.SetDx(0, g.Neg(Product(g, inverse, !adjoint, Product(g, g.dy(0), adjoint, inverse, !adjoint), false)));
}

void SolveGradient(GradientContext& g) {
  const bool adjoint = g.Bool("adjoint");
  const Output right = g.Op("MatrixSolve", {g.input(0), g.dy(0)}, {{"adjoint", !adjoint}});
  const Output x = g.output(0);
  g.SetDx(0, g.Neg(adjoint ? Product(g, x, false, right, true) : Product(g, right, false, x, true)));
  g.SetDx(1, right);
}

// d(log |a|) = trace(inverse da); factors: one for each matrix.
void ScaledInverse(GradientContext& g, Output factors) {
  const Output inverse = g.Op("MatrixInverse", {g.input(0)}, {{"adjoint", true}});
  g.SetDx(0, g.Mul(g.ExpandDims(g.ExpandDims(factors, -1), -1), inverse));
}
void DeterminantGradient(GradientContext& g) { ScaledInverse(g, g.Mul(g.dy(0), g.output(0))); }
// A sign does not change.
void LogDeterminantGradient(GradientContext& g) { ScaledInverse(g, g.dy(1)); }

// ---- Shapes ----

void SolveShape(ShapeContext& c) {
  const Shape matrix = SquareShape(c, 0), right = c.WithRankAtLeast(1, 2);
  const Shape batch = c.Merge(matrix.Slice(0, -2), right.Slice(0, -2), "the batch dims");
  const int64_t rows = c.Merge(matrix[-1], right[-2], "the rows of matrix and of rhs");
  c.SetOutput(0, Join(batch, Shape{rows, right[-1]}));
}
void LuShape(ShapeContext& c) {
  const Shape shape = SquareShape(c, 0);
  c.SetOutput(0, shape);
  c.SetOutput(1, shape.Slice(0, -1));
}
void DeterminantShape(ShapeContext& c) {
  const Shape shape = SquareShape(c, 0).Slice(0, -2);
  for (int i = 0; i < c.output_count(); ++i) c.SetOutput(i, shape);
}

constexpr std::string_view kSquare = "rank(input) >= 2; dim(input, -1) == dim(input, -2)";
constexpr Traits kStored = {.constraints = Constraints<Stored::Constraint<"T">>::list};

}  // namespace

TENON_KERNEL(kMatrixInverseKernel) = Registration<Inverse>("MatrixInverse", kStored);
TENON_KERNEL(kMatrixSolveKernel) = Registration<Solve>("MatrixSolve", kStored);
TENON_KERNEL(kLuKernel) = Registration<PackedFactors>("Lu", kStored);
TENON_KERNEL(kMatrixDeterminantKernel) = Registration<DeterminantKernel<false>>("MatrixDeterminant", kStored);
TENON_KERNEL(kLogMatrixDeterminantKernel) = Registration<DeterminantKernel<true>>("LogMatrixDeterminant", kStored);

TENON_OP(kMatrixInverse) = DefineOp({
    .name = "MatrixInverse",
    .inputs = "input: T",
    .outputs = "output: T",
    .attrs = "adjoint: bool = false; T: {double, float, half, complex64, complex128}",
    .constraints = kSquare,
    .doc = "The inverses of square matrices, or of their adjoints. A matrix without an inverse is an error where a "
           "pivot is 0.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<SameSquareShape>,
    .gradient = GradientFunction<InverseGradient>,
});

TENON_OP(kMatrixSolve) = DefineOp({
    .name = "MatrixSolve",
    .inputs = "matrix: T, rhs: T",
    .outputs = "output: T",
    .attrs = "adjoint: bool = false; T: {double, float, half, complex64, complex128}",
    .constraints = "rank(matrix) >= 2; rank(rhs) == rank(matrix); dim(matrix, -1) == dim(matrix, -2); dim(matrix, -1) "
                   "== dim(rhs, -2)",
    .doc = "The x of matrix x = rhs, or of adjoint(matrix) x = rhs.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<SolveShape>,
    .gradient = GradientFunction<SolveGradient>,
});

TENON_OP(kLu) = DefineOp({
    .name = "Lu",
    .inputs = "input: T",
    .outputs = "lu: T, p: output_idx_type",
    .attrs = "T: {double, float, half, complex64, complex128}; output_idx_type: {int32, int64} = int32",
    .constraints = kSquare,
    .doc = "L, whose diagonal of ones is left out, below U, such that row i of L U is row p[i] of the input.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<LuShape>,
});

TENON_OP(kMatrixDeterminant) = DefineOp({
    .name = "MatrixDeterminant",
    .inputs = "input: T",
    .outputs = "output: T",
    .attrs = "T: {half, float, double, complex64, complex128}",
    .constraints = kSquare,
    .doc = "The determinants of square matrices.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<DeterminantShape>,
    .gradient = GradientFunction<DeterminantGradient>,
});

TENON_OP(kLogMatrixDeterminant) = DefineOp({
    .name = "LogMatrixDeterminant",
    .inputs = "input: T",
    .outputs = "sign: T, log_abs_determinant: T",
    .attrs = "T: {half, float, double, complex64, complex128}",
    .constraints = kSquare,
    .doc = "The determinants of square matrices as a factor of size 1 and the logarithm of their size.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<DeterminantShape>,
    .gradient = GradientFunction<LogDeterminantGradient>,
});

}  // namespace tenon::ops
