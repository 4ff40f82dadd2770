// SPDX-License-Identifier: Apache-2.0
// A product as the host knows it, and the plan of how it is computed: by the vendor's library where it takes it
// (library.h), else by our own code.
//
//   ProductProblem problem = {.dtype = ..., .rows = m, .columns = n, .depth = k};
//   problem.left = {.line = {k}, .depth = {1}};  problem.right = {.line = {1}, .depth = {n}};  problem.out_row = {n};
//   ProductPlan plan(problem, s);                // in Plan
//   plan.Launch(on, at[0], at[1], at[2]);        // in Launch
#ifndef TENON_DEVICES_GPU_KERNELS_PRODUCT_H_
#define TENON_DEVICES_GPU_KERNELS_PRODUCT_H_

#include "code/product.h"
#include "kernels/kernel.h"

namespace tenon::gpu {

struct ProductProblem {
  enum class Left { kMatrix, kPatches, kTurnedPatches };

  uint32_t dtype = TENON_DT_FLOAT;
  bool keeps_sums = false;  // the result is the sums of halves as they are, of float32
  int64_t rows = 0, columns = 0, depth = 0;
  Left left_kind = Left::kMatrix;
  MatrixView left = {}, right = {};  // along_depth and quads are the plan's to find out
  PatchView patches = {};            // in place of left; so there
  Steps out_row = {};
  int64_t out_column_step = 1;
  ProductBatches batches;
};

// Of operands 0 and 1, whose last two dims are matrices; the dims before broadcast (batches: they may be there).
ProductProblem MatrixProblem(bool transpose_a, bool transpose_b, bool batches, const Shapes& s);

// What is done with the sums; known when it is planned.
struct ProductEnd {
  bool bias = false;  // one for each column is added
  bool relu = false;
};

// Whether a vendor's library takes the problem, where its operands are aligned.
bool IsLibrarys(const ProductProblem& problem, const Shapes& s);

class ProductPlan {
 public:
  ProductPlan(const ProductProblem& problem, Shapes& s, ProductEnd end = {});
  // bias: where the end has one.
  void Launch(Launcher& on, const void* left, const void* right, void* out, const void* bias = nullptr) const;
  bool is_librarys() const { return library_ != nullptr; }

 private:
  void LaunchOwn(Launcher& on, const void* left, const void* right, void* out, const void* bias) const;
  void LaunchEnd(Launcher& on, void* out, const void* bias) const;

  ProductEnd end_;
  std::unique_ptr<LibraryWork> library_;  // takes it where the operands are aligned; NULL: never
  int64_t library_at_ = 0;
  Function end_code_ = nullptr;  // what the library leaves to do to its sums
  ProductParams params_ = {};
  bool keeps_sums_;       // of float32
  uint64_t quad_bytes_;   // what addresses of quads are multiples of
  bool is_turned_;        // left and right are exchanged
  int64_t tiles_, parts_at_ = 0;
  Function tile_, sum_ = nullptr;  // sum_: of sums that lie in workspace first
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_KERNELS_PRODUCT_H_
