// SPDX-License-Identifier: Apache-2.0
// The only file that compiles Eigen's products.
//
// The types below Eigen::internal are what Eigen's own product expression calls. They are used directly because the
// expression allocates its blocks on the heap above some size.
#include "kernels/products/product.h"

#include <Eigen/Core>
#include <algorithm>

namespace tenon::cpu {
namespace {

using Eigen::Index;

// One vector in flight for so many rows: packing B would cost more than reading it again.
constexpr int64_t kVectorRows = 2;

// Eigen multiplies into column-major results: its left side is B transposed here, its right side A transposed.
template <class T>
using Traits = Eigen::internal::gebp_traits<T, T>;
static_assert(kColumnUnit % Traits<float>::mr == 0 && kColumnUnit % Traits<double>::mr == 0);
static_assert(kRowUnit % Traits<float>::nr == 0 && kRowUnit % Traits<double>::nr == 0);
static_assert(kColumnUnit % Traits<uint32_t>::mr == 0 && kColumnUnit % Traits<uint64_t>::mr == 0);

int64_t Aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Eigen's blocks in memory that was there before.
template <class T>
struct Blocks : Eigen::internal::level3_blocking<T, T> {
  Blocks(const ProductPlan& p, void* workspace) {
    this->m_kc = p.depth, this->m_mc = p.columns, this->m_nc = p.rows;
    this->m_blockA = static_cast<T*>(workspace);
    const int64_t left = Aligned(p.depth * p.columns * static_cast<int64_t>(sizeof(T)));
    this->m_blockB = reinterpret_cast<T*>(static_cast<char*>(workspace) + left);
  }
};

template <class T, int kOrderA, int kOrderB>
void MultiplyBlocked(const ProductPlan& p, const T* a, const T* b, T* c, void* workspace) {
  const ProductShape& s = p.shape;
  Blocks<T> blocks(p, workspace);
  Eigen::internal::general_matrix_matrix_product<Index, T, kOrderA, false, T, kOrderB, false, Eigen::RowMajor, 1>::run(
      s.m, s.n, s.k, a, kOrderA == Eigen::RowMajor ? s.a_row : s.a_column, b,
      kOrderB == Eigen::RowMajor ? s.b_row : s.b_column, c, 1, s.c_row, T(1), blocks, nullptr);
}

// result[rows] += matrix[rows, depth] vector[depth].
template <class T, int kOrder>
void MultiplyVector(int64_t rows, int64_t depth, const T* matrix, int64_t stride, const T* vector, T* result) {
  using Matrix = Eigen::internal::const_blas_data_mapper<T, Index, kOrder>;
  using Vector = Eigen::internal::const_blas_data_mapper<T, Index, Eigen::ColMajor>;
  Eigen::internal::general_matrix_vector_product<Index, T, Matrix, kOrder, false, T, Vector, false>::run(
      rows, depth, Matrix(matrix, stride), Vector(vector, 1), result, 1, T(1));
}
template <class T>
void MultiplyVector(int64_t rows, int64_t depth, const T* matrix, int64_t row, int64_t column, const T* vector,
                    T* result) {
  if (column == 1) {
    MultiplyVector<T, Eigen::RowMajor>(rows, depth, matrix, row, vector, result);
  } else {
    MultiplyVector<T, Eigen::ColMajor>(rows, depth, matrix, column, vector, result);
  }
}

}  // namespace

template <class T>
ProductPlan PlanProduct(const ProductShape& shape) {
  ProductPlan p;
  p.shape = shape;
  // Of the whole shape: its shares go the same way.
  if (shape.m <= kVectorRows && shape.a_column == 1) {
    p.way = ProductPlan::Way::kRowVectors;
    return p;
  }
  if (shape.n == 1 && shape.b_row == 1 && shape.c_row == 1) {
    p.way = ProductPlan::Way::kColumnVector;
    return p;
  }
  if (shape.m <= 0 || shape.n <= 0 || shape.k <= 0) return p;
  Index depth = shape.k, columns = shape.n, rows = shape.m;
  Eigen::internal::computeProductBlockingSizes<T, T, 1>(depth, columns, rows, Index{1});
  p.depth = depth;
  // Whole tiles, so that where a block ends changes no sum.
  p.columns = std::min<int64_t>(shape.n, (columns + kColumnUnit - 1) / kColumnUnit * kColumnUnit);
  p.rows = std::min<int64_t>(shape.m, (rows + kRowUnit - 1) / kRowUnit * kRowUnit);
  const auto element = static_cast<int64_t>(sizeof(T));
  p.bytes = Aligned(sdk::Multiply(p.depth * p.columns, element)) + Aligned(sdk::Multiply(p.depth * p.rows, element));
  return p;
}

template <class T>
void Multiply(const ProductPlan& p, const T* a, const T* b, T* c, bool accumulate, void* workspace) {
  const ProductShape& s = p.shape;
  if (!accumulate && s.c_row == s.n) {
    std::fill_n(c, s.m * s.n, T(0));
  } else if (!accumulate) {
    for (int64_t i = 0; i < s.m; ++i) std::fill_n(c + i * s.c_row, s.n, T(0));
  }
  if (s.m <= 0 || s.n <= 0 || s.k <= 0) return;
  if (p.way == ProductPlan::Way::kRowVectors) {
    for (int64_t i = 0; i < s.m; ++i) {
      MultiplyVector(s.n, s.k, b, s.b_column, s.b_row, a + i * s.a_row, c + i * s.c_row);
    }
  } else if (p.way == ProductPlan::Way::kColumnVector) {
    MultiplyVector(s.m, s.k, a, s.a_row, s.a_column, b, c);
  } else if (s.a_column == 1) {
    if (s.b_column == 1) {
      MultiplyBlocked<T, Eigen::RowMajor, Eigen::RowMajor>(p, a, b, c, workspace);
    } else {
      MultiplyBlocked<T, Eigen::RowMajor, Eigen::ColMajor>(p, a, b, c, workspace);
    }
  } else if (s.b_column == 1) {
    MultiplyBlocked<T, Eigen::ColMajor, Eigen::RowMajor>(p, a, b, c, workspace);
  } else {
    MultiplyBlocked<T, Eigen::ColMajor, Eigen::ColMajor>(p, a, b, c, workspace);
  }
}

template <class T>
double ProductCost(double multiply_adds) {
  constexpr int kLanes = Traits<T>::Vectorizable ? static_cast<int>(Traits<T>::LhsPacketSize) : 1;
  return multiply_adds / (3.0 * kLanes);
}

template <class T>
SharedProduct SharedProduct::Make(sdk::PrepareContext& c, const ProductShape& shape) {
  constexpr double kSmallestShare = 20e3;  // nanoseconds
  SharedProduct p;
  p.whole_ = shape;
  p.plan_ = PlanProduct<T>(shape);
  // Every share packs the whole of the other side: share the longer one.
  p.by_rows_ = shape.m > shape.n;
  const double cost =
      ProductCost<T>(static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k));
  const int64_t units = p.by_rows_ ? (shape.m + kRowUnit - 1) / kRowUnit : (shape.n + kColumnUnit - 1) / kColumnUnit;
  const auto worth = static_cast<int64_t>(std::min(cost / kSmallestShare, 1e6));
  p.shares_ = std::max<int64_t>(1, std::min({c.threads(), units, worth}));
  p.cost_ = cost / static_cast<double>(p.shares_);
  p.workspace_ = c.Workspace(sdk::Multiply(p.plan_.bytes, p.shares_));
  return p;
}

template <class T>
void MultiplyInPieces(sdk::RunContext c, const ProductPlan& plan, bool by_rows, double cost, const T* a, const T* b,
                      T* out, bool accumulate, void* workspace) {
  // Each piece of rows or columns packs the other side again, which takes a few hundredths of what one of so many
  // takes. Of the depth each takes whole blocks, as they would be taken one after the other.
  constexpr double kPieceNs = 20e6;  // of an estimate that is a fifth of what it may be
  constexpr int64_t kLeast = 512;
  if (cost <= kPieceNs) return Multiply(plan, a, b, out, accumulate, workspace);
  const ProductShape& shape = plan.shape;
  const int64_t unit = by_rows ? kRowUnit : kColumnUnit, whole = by_rows ? shape.m : shape.n;
  const auto wanted = static_cast<int64_t>(static_cast<double>(whole) * kPieceNs / cost);
  const int64_t step = std::min(whole, (std::max(wanted, kLeast) + unit - 1) / unit * unit);
  const double depths =
      static_cast<double>(shape.k) * kPieceNs * static_cast<double>(whole) / (cost * static_cast<double>(step));
  const int64_t deep = plan.way == ProductPlan::Way::kBlocks
                           ? std::max<int64_t>(1, static_cast<int64_t>(depths) / plan.depth) * plan.depth
                           : shape.k;
  for (int64_t from = 0; from < whole; from += step) {
    for (int64_t depth = 0; depth < shape.k; depth += deep) {
      if (from + depth != 0) c.CheckCancelled();
      ProductPlan piece = plan;
      (by_rows ? piece.shape.m : piece.shape.n) = std::min(step, whole - from);
      piece.shape.k = std::min(deep, shape.k - depth);
      Multiply(piece, (by_rows ? a + from * shape.a_row : a) + depth * shape.a_column,
               (by_rows ? b : b + from * shape.b_column) + depth * shape.b_row,
               by_rows ? out + from * shape.c_row : out + from, accumulate || depth > 0, workspace);
    }
  }
}

template <class T>
void SharedProduct::Run(sdk::RunContext c, const ProductShape& shape, const T* a, const T* b, T* out,
                        bool accumulate) const {
  const int64_t whole = by_rows_ ? shape.m : shape.n, unit = by_rows_ ? kRowUnit : kColumnUnit;
  const int64_t units = (whole + unit - 1) / unit;
  c.ParallelFor(shares_, cost_, [&](int64_t begin, int64_t end) {
    for (int64_t share = begin; share < end; ++share) {
      const int64_t from = units * share / shares_ * unit;
      ProductPlan plan = plan_;
      plan.shape = shape;
      (by_rows_ ? plan.shape.m : plan.shape.n) = std::min(whole, units * (share + 1) / shares_ * unit) - from;
      MultiplyInPieces(c, plan, by_rows_, cost_, by_rows_ ? a + from * shape.a_row : a,
                       by_rows_ ? b : b + from * shape.b_column, by_rows_ ? out + from * shape.c_row : out + from,
                       accumulate, c.workspace<char>(workspace_ + share * plan_.bytes));
    }
  });
}

#define TENON_CPU_PRODUCT(T)                                                                                         \
  template ProductPlan PlanProduct<T>(const ProductShape&);                                                          \
  template void Multiply<T>(const ProductPlan&, const T*, const T*, T*, bool, void*);                                \
  template void MultiplyInPieces<T>(sdk::RunContext, const ProductPlan&, bool, double, const T*, const T*, T*, bool, \
                                    void*);                                                                          \
  template double ProductCost<T>(double);                                                                            \
  template SharedProduct SharedProduct::Make<T>(sdk::PrepareContext&, const ProductShape&);                          \
  template void SharedProduct::Run<T>(sdk::RunContext, const ProductShape&, const T*, const T*, T*, bool) const;
TENON_CPU_PRODUCT(float)
TENON_CPU_PRODUCT(double)
TENON_CPU_PRODUCT(uint32_t)
TENON_CPU_PRODUCT(uint64_t)
#undef TENON_CPU_PRODUCT

}  // namespace tenon::cpu
