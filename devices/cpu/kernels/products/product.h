// SPDX-License-Identifier: Apache-2.0
// Matrix products by Eigen, in memory of the kernel's.
//
// prepare() plans a product: Eigen's block sizes for the whole shape, and the bytes of workspace that one product in
// flight needs for its packed blocks; run() multiplies and allocates nothing. Vectors times matrices go to Eigen's own
// kernel for them, which packs nothing.
//
// Rules. Every element is summed in an order that depends on the plan alone: k is never shared, and shares of rows and
// columns begin at multiples of the tile of Eigen's kernel (RowUnit, ColumnUnit), so the bits do not depend on sharing.
// Element types: float, double, and uint32_t and uint64_t, which wrap as integers of either sign do.
#ifndef TENON_DEVICES_CPU_KERNELS_PRODUCTS_PRODUCT_H_
#define TENON_DEVICES_CPU_KERNELS_PRODUCTS_PRODUCT_H_

#include <cstdint>

#include "tenon/sdk/kernel/kernel.h"

namespace tenon::cpu {

// C[m, n] = A[m, k] B[k, n]; A and B have a stride for each index, of which one is 1, C has rows of n elements.
struct ProductShape {
  int64_t m, n, k;
  int64_t a_row, a_column;
  int64_t b_row, b_column;
  int64_t c_row;
};

struct ProductPlan {
  ProductShape shape = {};
  int64_t depth = 0, rows = 0, columns = 0;  // Eigen's blocks: of k, m and n
  int64_t bytes = 0;                         // of workspace; a multiple of 64
  enum class Way { kBlocks, kRowVectors, kColumnVector } way = Way::kBlocks;
};
// The blocks of `shape`, for products of its m or fewer rows and its n or fewer columns.
template <class T>
ProductPlan PlanProduct(const ProductShape& shape);

// c (+)= a b. `workspace` has plan.bytes; plan.shape may have become smaller, and its strides others.
template <class T>
void Multiply(const ProductPlan& plan, const T* a, const T* b, T* c, bool accumulate, void* workspace);

// The same in pieces, where it takes longer than a deadline can wait: fails between them once the step was given up.
// by_rows: pieces are rows, else columns. cost: rough nanoseconds of the whole.
template <class T>
void MultiplyInPieces(sdk::RunContext c, const ProductPlan& plan, bool by_rows, double cost, const T* a, const T* b,
                      T* out, bool accumulate, void* workspace);

// Shares of a product begin at multiples of these rows and columns.
inline constexpr int64_t kRowUnit = 4;
inline constexpr int64_t kColumnUnit = 48;

// Rough nanoseconds of that many multiply-adds.
template <class T>
double ProductCost(double multiply_adds);

// One product shared among threads.
class SharedProduct {
 public:
  SharedProduct() = default;
  // Asks for workspace.
  template <class T>
  static SharedProduct Make(sdk::PrepareContext& c, const ProductShape& shape);
  // `shape` is the planned one, or has a smaller k or other strides.
  template <class T>
  void Run(sdk::RunContext c, const ProductShape& shape, const T* a, const T* b, T* out, bool accumulate) const;
  template <class T>
  void Run(sdk::RunContext c, const T* a, const T* b, T* out) const {
    Run(c, whole_, a, b, out, false);
  }

 private:
  ProductPlan plan_;  // of a share
  ProductShape whole_ = {};
  int64_t shares_ = 1;
  int64_t workspace_ = 0;
  double cost_ = 0;  // of a share
  bool by_rows_ = true;
};

}  // namespace tenon::cpu

#endif  // TENON_DEVICES_CPU_KERNELS_PRODUCTS_PRODUCT_H_
