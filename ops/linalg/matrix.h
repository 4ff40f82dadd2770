// SPDX-License-Identifier: Apache-2.0
// What the kernels share: stacks of matrices, which are the last two dims of tensors, as Eigen's.
//
// Halves are computed as floats and rounded once. A matrix is copied into Eigen's order (columns first), because what
// its factorizations do to it they do in place. Scratch of a factorization is Eigen's own, a few times the matrix; who
// finds no memory ends with RESOURCE_EXHAUSTED. Whether the step was given up is asked within each factorization
// (asking.h).
#ifndef TENON_OPS_LINALG_MATRIX_H_
#define TENON_OPS_LINALG_MATRIX_H_

#include <Eigen/Core>
#include <cmath>
#include <limits>

#include "asking.h"
#include "tenon/sdk/kernel/element.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops::linalg {

using sdk::Count;
using sdk::Dims;
using sdk::DimsOf;

// What Eigen computes in, and what tensors hold.
using Computed = sdk::Types<float, double, std::complex<float>, std::complex<double>>;
using Stored = Computed::And<sdk::Half>;

template <class T>
using Matrix = Eigen::Matrix<sdk::Wide<T>, Eigen::Dynamic, Eigen::Dynamic>;
// What is used seldom and takes the compiler long, it compiles of doubles alone; results are rounded once.
template <class T>
using Precise = std::conditional_t<sdk::kIsComplex<T>, std::complex<double>, double>;
template <class T>
using PreciseMatrix = Eigen::Matrix<Precise<T>, Eigen::Dynamic, Eigen::Dynamic>;
template <class T>
using RealOf = typename Eigen::NumTraits<sdk::Wide<T>>::Real;
template <class T>
using Rows = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr int64_t kPiece = 1 << 18;  // elements that are copied before it is asked whether the step was given up

// Matrices of one shape, one after the other.
struct Stack {
  Dims batch;
  int64_t count = 0, rows = 0, columns = 0;
  // Elements of one; without matrices there may be no number for them.
  int64_t size() const { return count == 0 ? 0 : rows * columns; }

  static Stack Of(const tenon_tensor_view& view) {
    const Dims dims = DimsOf(view);
    if (dims.size() < 2) sdk::Fail(TENON_INVALID_ARGUMENT, "Input tensor must have rank >= 2; its shape is ", dims);
    const Dims batch = dims.first(dims.size() - 2);
    return {batch, Count(batch), dims[dims.size() - 2], dims.back()};
  }
  static Stack OfSquare(const tenon_tensor_view& view) {
    const Stack stack = Of(view);
    if (stack.rows != stack.columns)
      sdk::Fail(TENON_INVALID_ARGUMENT, "Input matrix must be square; the shape is ", DimsOf(view));
    return stack;
  }
};

inline void CheckOneBatch(const Stack& a, const Stack& b) {
  if (!std::equal(a.batch.begin(), a.batch.end(), b.batch.begin(), b.batch.end()))
    sdk::Fail(TENON_INVALID_ARGUMENT, "All input tensors must have the same outer dimensions; they have ", a.batch,
              " and ", b.batch);
}

// function(begin, count) for each so many of the rows that the question whether the step was given up does not wait.
template <class Function>
void InPieces(int64_t rows, int64_t columns, const Function& function) {
  const int64_t piece = std::max<int64_t>(1, kPiece / std::max<int64_t>(1, columns));
  for (int64_t begin = 0; begin < rows; begin += piece) {
    AskNow();
    function(begin, std::min(piece, rows - begin));
  }
}

// A matrix of a tensor, in what it is computed in.
template <class Number, class T>
Eigen::Matrix<Number, Eigen::Dynamic, Eigen::Dynamic> LoadAs(const T* from, int64_t rows, int64_t columns) {
  Eigen::Matrix<Number, Eigen::Dynamic, Eigen::Dynamic> matrix(rows, columns);
  InPieces(rows, columns, [&](int64_t begin, int64_t count) {
    if constexpr (sdk::kIsHalf<T>) {
      for (int64_t row = begin; row < begin + count; ++row)
        for (int64_t column = 0; column < columns; ++column)
          matrix(row, column) = Number(static_cast<float>(from[row * columns + column]));
    } else {
      matrix.middleRows(begin, count) =
          Eigen::Map<const Rows<T>>(from + begin * columns, count, columns).template cast<Number>();
    }
  });
  return matrix;
}
// Matrix `index` of an input's stack.
template <class Number, class T>
Eigen::Matrix<Number, Eigen::Dynamic, Eigen::Dynamic> LoadAs(const sdk::RunContext& c, int32_t input,
                                                             const Stack& stack, int64_t index) {
  return LoadAs<Number>(c.input<T>(input) + index * stack.size(), stack.rows, stack.columns);
}
template <class T>
Matrix<T> Load(const sdk::RunContext& c, int32_t input, const Stack& stack, int64_t index) {
  return LoadAs<sdk::Wide<T>, T>(c, input, stack, index);
}
template <class T>
PreciseMatrix<T> LoadPrecise(const sdk::RunContext& c, int32_t input, const Stack& stack, int64_t index) {
  return LoadAs<Precise<T>, T>(c, input, stack, index);
}

// Rows first, one after the other; values: an expression of Eigen's whose elements cost nothing, of what T is computed
// in or more precise.
template <class T, class Expression>
void StorePrecise(const Expression& values, T* to) {
  const int64_t columns = values.cols();
  InPieces(values.rows(), columns, [&](int64_t begin, int64_t count) {
    if constexpr (sdk::kIsHalf<T>) {
      for (int64_t row = begin; row < begin + count; ++row)
        for (int64_t column = 0; column < columns; ++column)
          to[row * columns + column] = T(static_cast<float>(values.coeff(row, column)));
    } else {
      Eigen::Map<Rows<T>>(to + begin * columns, count, columns) = values.middleRows(begin, count).template cast<T>();
    }
  });
}
// values: any expression of what T is computed in, such as a solution, which is computed where it is stored.
template <class T, class Expression>
void Store(const Expression& values, T* to) {
  if constexpr (sdk::kIsHalf<T>) StorePrecise<T>(Matrix<T>(values), to);
  else if constexpr (std::is_base_of_v<Eigen::PlainObjectBase<Expression>, Expression>) StorePrecise<T>(values, to);
  else Eigen::Map<Rows<T>>(to, values.rows(), values.cols()) = values;
}

// function(index) for each of `count` matrices, shared among threads; `size` is about the cube root of the operations
// that one takes.
template <class Function>
void ForEachMatrix(const sdk::RunContext& c, int64_t count, int64_t size, const Function& function) {
  const double n = static_cast<double>(size);
  c.ParallelFor(count, 200 + n * n * n, [&](int64_t begin, int64_t end) {
    const AsksFor asks(c);
    for (int64_t i = begin; i < end; ++i) function(i);
  });
}

// The output's columns and rows, square, from rank 2 on.
inline sdk::Shape SquareShape(sdk::ShapeContext& c, int input) {
  sdk::Shape shape = c.WithRankAtLeast(input, 2);
  const int64_t side = c.Merge(shape[-2], shape[-1], "the rows and columns of a square matrix");
  shape.Set(-2, side);
  shape.Set(-1, side);
  return shape;
}
inline void SameSquareShape(sdk::ShapeContext& c) { c.SetOutput(0, SquareShape(c, 0)); }

}  // namespace tenon::ops::linalg
#endif  // TENON_OPS_LINALG_MATRIX_H_
