// SPDX-License-Identifier: Apache-2.0
// What the kernels share: stacks of matrices, which are the last two dims of tensors, as Eigen's.
//
// Halves are computed as floats and rounded once. A matrix is copied into Eigen's order (columns first), because what its factorizations do to it they do in place.
// Scratch of a factorization is Eigen's own, a few times the matrix; who finds no memory ends with RESOURCE_EXHAUSTED. What is begun with a matrix is finished, even where
// the step was given up meanwhile.
#ifndef TENON_OPS_LINALG_MATRIX_H_
#define TENON_OPS_LINALG_MATRIX_H_

#include <Eigen/Core>
#include <cmath>
#include <limits>

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
    if (stack.rows != stack.columns) sdk::Fail(TENON_INVALID_ARGUMENT, "Input matrix must be square; the shape is ", DimsOf(view));
    return stack;
  }
};

inline void CheckOneBatch(const Stack& a, const Stack& b) {
  if (!std::equal(a.batch.begin(), a.batch.end(), b.batch.begin(), b.batch.end()))
    sdk::Fail(TENON_INVALID_ARGUMENT, "All input tensors must have the same outer dimensions; they have ", a.batch, " and ", b.batch);
}

template <class T>
Matrix<T> Load(const T* from, int64_t rows, int64_t columns) {
  if constexpr (sdk::kIsHalf<T>) {
    Matrix<T> matrix(rows, columns);
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column) matrix(row, column) = static_cast<float>(from[row * columns + column]);
    return matrix;
  } else {
    return Eigen::Map<const Rows<T>>(from, rows, columns);
  }
}
// Matrix `index` of an input's stack.
template <class T>
Matrix<T> Load(const sdk::RunContext& c, int32_t input, const Stack& stack, int64_t index) {
  return Load(c.input<T>(input) + index * stack.size(), stack.rows, stack.columns);
}

template <class T>
PreciseMatrix<T> LoadPrecise(const sdk::RunContext& c, int32_t input, const Stack& stack, int64_t index) {
  return Load<T>(c, input, stack, index).template cast<Precise<T>>();
}

// Rows first, one after the other; values: an expression of Eigen's.
template <class T, class Expression>
void Store(const Expression& values, T* to) {
  if constexpr (sdk::kIsHalf<T>) {
    const Matrix<T> given = values;
    for (int64_t row = 0; row < given.rows(); ++row)
      for (int64_t column = 0; column < given.cols(); ++column) *to++ = T(given(row, column));
  } else {
    Eigen::Map<Rows<T>>(to, values.rows(), values.cols()) = values;
  }
}

template <class T, class Expression>
void StorePrecise(const Expression& values, T* to) {
  Store(values.template cast<sdk::Wide<T>>(), to);
}

// function(index) for each of `count` matrices, shared among threads; `size` is about the cube root of the operations that one takes.
template <class Function>
void ForEachMatrix(const sdk::RunContext& c, int64_t count, int64_t size, const Function& function) {
  const double n = static_cast<double>(size);
  c.ParallelFor(count, 200 + n * n * n, [&](int64_t begin, int64_t end) {
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
