// SPDX-License-Identifier: Apache-2.0
// MatrixTriangularSolve and BandedTriangularSolve, whose batch dims broadcast.
#include "matrix.h"
#include "nodes.h"
#include "tenon/extras/op/batch_gradient.h"

namespace tenon::ops {
using namespace sdk;
using namespace linalg;

namespace {

using Solved = Stored::And<Bfloat16>;

// Which matrix of an operand belongs to matrix `index` of the output, whose batch dims the operand's broadcast to.
int64_t Operand(Dims out, Dims operand, int64_t index) {
  int64_t at = 0, stride = 1;
  for (size_t k = 1; k <= out.size(); ++k) {
    const int64_t dim = out[out.size() - k], place = index % dim;
    index /= dim;
    if (k > operand.size()) continue;
    const int64_t own = operand[operand.size() - k];
    at += (own == 1 ? 0 : place) * stride;
    stride *= own;
  }
  return at;
}

struct TriangularSolve {
  explicit TriangularSolve(CreateContext& c) : lower(c.Bool("lower")), adjoint(c.Bool("adjoint")) {}
  void Run(RunContext c) const {
    const Stack stack = Stack::OfSquare(c.input_view(0)), right = Stack::Of(c.input_view(1)),
                out = Stack::Of(c.output_view(0));
    if (stack.rows != right.rows)
      Fail(TENON_INVALID_ARGUMENT, "Input matrix and rhs are incompatible: ", stack.rows, " and ", right.rows, " rows");
    if (out.size() == 0) return;
    Solved::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      ForEachMatrix(c, out.count, out.rows, [&](int64_t i) {
        Matrix<T> matrix = Load<T>(c, 0, stack, Operand(out.batch, stack.batch, i));
        if (adjoint) matrix.adjointInPlace();
        Matrix<T> x = Load<T>(c, 1, right, Operand(out.batch, right.batch, i));
        // Eigen asks once for a block of rows and all columns.
        constexpr int64_t kColumns = 256;
        for (int64_t begin = 0; begin < x.cols(); begin += kColumns) {
          auto columns = x.middleCols(begin, std::min(kColumns, x.cols() - begin));
          if (lower != adjoint) matrix.template triangularView<Eigen::Lower>().solveInPlace(columns);
          else matrix.template triangularView<Eigen::Upper>().solveInPlace(columns);
        }
        Store(x, c.output<T>(0) + i * out.size());
      });
    });
  }
  bool lower, adjoint;
};

// Of a lower triangle the bands are the diagonal and those below it, each element in its row's column; of an upper one
// those above, the farthest first, and the diagonal, each element in the column of its row.
struct BandedSolve {
  explicit BandedSolve(CreateContext& c) : lower(c.Bool("lower")), adjoint(c.Bool("adjoint")) {}
  void Run(RunContext c) const {
    const Stack bands = Stack::Of(c.input_view(0)), right = Stack::Of(c.input_view(1)),
                out = Stack::Of(c.output_view(0));
    const int64_t n = bands.columns;
    if (bands.rows < 1 || bands.rows > n)
      Fail(TENON_INVALID_ARGUMENT, "there are ", bands.rows, " bands of a matrix of ", n,
           " rows; there must be one at least, and no more than rows");
    if (n != right.rows)
      Fail(TENON_INVALID_ARGUMENT, "Input matrix and rhs are incompatible: ", n, " and ", right.rows, " rows");
    if (out.size() == 0) return;
    Stored::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      const double rows = static_cast<double>(n),
                   cost = 200 + rows * static_cast<double>(bands.rows) * static_cast<double>(right.columns);
      c.ParallelFor(out.count, cost, [&](int64_t begin, int64_t end) {
        const AsksFor asks(c);
        for (int64_t i = begin; i < end; ++i) Solve<T>(c, bands, right, out, i);
      });
    });
  }

 private:
  template <class T>
  void Solve(const RunContext& c, const Stack& bands, const Stack& right, const Stack& out, int64_t index) const {
    using Number = sdk::Wide<T>;
    const int64_t n = bands.columns, reach = bands.rows - 1;
    const Matrix<T> matrix = Load<T>(c, 0, bands, Operand(out.batch, bands.batch, index));
    Rows<Number> x = Load<T>(c, 1, right, Operand(out.batch, right.batch, index));
    // Element [row, column] of the triangle that is solved, which is the adjoint of the given one where that is asked
    // for.
    const auto at = [&](int64_t row, int64_t column) {
      if (adjoint) std::swap(row, column);
      const Number value = lower ? matrix(row - column, row) : matrix(reach - (column - row), row);
      if constexpr (kIsComplex<Number>) return adjoint ? std::conj(value) : value;
      else return value;
    };
    for (int64_t row = 0; row < n; ++row)
      if (row == 0 ? !(std::abs(at(row, row)) > 0) : at(row, row) == Number(0))
        Fail(TENON_INVALID_ARGUMENT, "Input matrix is not invertible: element ", row, " of its diagonal is ",
             std::abs(at(row, row)));
    AskNow();
    const bool down = lower != adjoint;
    for (int64_t step = 0; step < n; ++step) {
      const int64_t row = down ? step : n - 1 - step;
      for (int64_t k = std::min(reach, step); k > 0; --k) {
        const int64_t other = down ? row - k : row + k;
        x.row(row) -= at(row, other) * x.row(other);
      }
      x.row(row) /= at(row, row);
      Ask(1 + (1 + reach) * right.columns);
    }
    Store(x, c.output<T>(0) + index * out.size());
  }
  bool lower, adjoint;
};

// ---- Shapes and gradients ----

void TriangularSolveShape(ShapeContext& c) {
  const Shape matrix = SquareShape(c, 0), right = c.WithRankAtLeast(1, 2);
  const int64_t rows = c.Merge(matrix[-1], right[-2], "the rows of matrix and of rhs");
  if (!matrix.known_rank() || !right.known_rank()) return;
  c.SetOutput(0, Join(c.Broadcast(matrix.Slice(0, -2), right.Slice(0, -2)), Shape{rows, right[-1]}));
}
void BandedSolveShape(ShapeContext& c) {
  const Shape bands = c.WithRankAtLeast(0, 2), right = c.WithRankAtLeast(1, 2);
  const int64_t rows = c.Merge(bands[-1], right[-2], "the columns of the bands and the rows of rhs");
  if (bands[-2] == 0 || (rows >= 0 && bands[-2] > rows))
    return c.Invalid("there are ", bands[-2], " bands of a matrix of ", rows,
                     " rows; there must be one at least, and no more than rows");
  if (!bands.known_rank() || !right.known_rank()) return;
  c.SetOutput(0, Join(c.Broadcast(bands.Slice(0, -2), right.Slice(0, -2)), Shape{rows, right[-1]}));
}

// The gradient of rhs by the adjoint, and of the whole matrix, as if it were no triangle.
std::pair<Output, Output> SolveGradients(GradientContext& g, std::string_view op) {
  const bool adjoint = g.Bool("adjoint");
  const Output x = g.output(0),
               right = g.Op(op, {g.input(0), g.dy(0)}, {{"lower", g.Bool("lower")}, {"adjoint", !adjoint}});
  const Output matrix = g.Neg(adjoint ? Product(g, x, false, right, true) : Product(g, right, false, x, true));
  return {matrix, right};
}
void SetGradients(GradientContext& g, Output matrix, Output right) {
  g.SetDx(0, UnbroadcastBatch(g, matrix, g.input(0), g.input(1)));
  g.SetDx(1, UnbroadcastBatch(g, right, g.input(1), g.input(0)));
}
void TriangularSolveGradient(GradientContext& g) {
  const auto [matrix, right] = SolveGradients(g, "MatrixTriangularSolve");
  SetGradients(g, g.Bool("lower") ? Band(g, matrix, -1, 0) : Band(g, matrix, 0, -1), right);
}
void BandedSolveGradient(GradientContext& g) {
  const auto [matrix, right] = SolveGradients(g, "BandedTriangularSolve");
  const Output bands = SizeOf(g, g.input(0), -2), zero = g.Vector({0}), one = g.Vector({1});
  const Output range = g.Bool("lower") ? g.Concat({g.Sub(one, bands), zero}) : g.Concat({zero, g.Sub(bands, one)});
  const Output taken = g.Op("MatrixDiagPartV3", {matrix, range, g.Scalar(0, matrix)}, {{"align", "LEFT_RIGHT"}});
  // One band comes as a row for each matrix.
  const Output each = g.Concat({g.VectorSlice(g.ShapeOf(g.output(0)), 0, -2), bands, SizeOf(g, g.input(0), -1)});
  SetGradients(g, g.Reshape(taken, each), right);
}

}  // namespace

TENON_KERNEL(kMatrixTriangularSolveKernel) =
    Registration<TriangularSolve>("MatrixTriangularSolve", {.constraints = Constraints<Solved::Constraint<"T">>::list});
TENON_KERNEL(kBandedTriangularSolveKernel) =
    Registration<BandedSolve>("BandedTriangularSolve", {.constraints = Constraints<Stored::Constraint<"T">>::list});

TENON_OP(kMatrixTriangularSolve) = DefineOp({
    .name = "MatrixTriangularSolve",
    .inputs = "matrix: T, rhs: T",
    .outputs = "output: T",
    .attrs = "lower: bool = true; adjoint: bool = false; T: {bfloat16, double, float, half, complex64, complex128}",
    .constraints =
        "rank(matrix) >= 2; rank(rhs) >= 2; dim(matrix, -1) == dim(matrix, -2); dim(matrix, -1) == dim(rhs, -2)",
    .doc = "The x of matrix x = rhs, or of adjoint(matrix) x = rhs, where the lower (or upper) triangle of matrix is "
           "all that is read of it. Where its diagonal has a 0, x is not finite.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<TriangularSolveShape>,
    .gradient = GradientFunction<TriangularSolveGradient>,
});

TENON_OP(kBandedTriangularSolve) = DefineOp({
    .name = "BandedTriangularSolve",
    .inputs = "matrix: T, rhs: T",
    .outputs = "output: T",
    .attrs = "lower: bool = true; adjoint: bool = false; T: {double, float, half, complex64, complex128}",
    .constraints = "rank(matrix) >= 2; rank(rhs) >= 2; dim(matrix, -1) == dim(rhs, -2)",
    .doc = "As MatrixTriangularSolve, where matrix has the triangle's bands as rows: from the diagonal downwards when "
           "lower, else down to the diagonal; aligned LEFT_RIGHT.",
    .shape = ShapeFunction<BandedSolveShape>,
    .gradient = GradientFunction<BandedSolveGradient>,
});

}  // namespace tenon::ops
