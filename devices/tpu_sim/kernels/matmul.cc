// SPDX-License-Identifier: Apache-2.0
// MatMul and BatchMatMulV2 on the matrix unit.
#include <vector>

#include "kernels/kernel.h"
#include "kernels/product.h"
#include "tenon/extras/walk/broadcast.h"

namespace tenon::tpu_sim {
namespace {

using sdk::Broadcast;
using sdk::Dims;

// Products of the last two dims of each; the dims before broadcast.
struct ProductPlan {
  ProductPlan(bool transpose_a, bool transpose_b, bool batches, Shapes& s)
      : transpose_a(transpose_a), transpose_b(transpose_b) {
    const Dims a = s.in(0), b = s.in(1);
    if (a.size() < 2 || b.size() < 2 || (!batches && (a.size() > 2 || b.size() > 2))) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "matrices have 2 dims; the shapes are ", a, " and ", b);
    }
    const Dims left = a.last(2), right = b.last(2);
    m = left[transpose_a ? 1 : 0];
    k = left[transpose_a ? 0 : 1];
    n = right[transpose_b ? 0 : 1];
    if (right[transpose_b ? 1 : 0] != k)
      sdk::Fail(TENON_INVALID_ARGUMENT, "the inner dims of ", a, " and ", b, " differ");
    batch = Broadcast<2>({a.first(a.size() - 2), b.first(b.size() - 2)}, s.out(0).first(s.out(0).size() - 2));
    round = s.Rounds(s.input(0).dtype);
    fold = s.machine().rows;
    MatrixTypes::Dispatch(s.input(0).dtype, [&]<class T>(Tag<T>) { function = &Loop<T>; });
    s.Matrix(m, n, k, s.input(0).dtype, batch.total);
  }
  void Work(char* const* at) const {
    if (m * n > 0 && batch.total > 0) function(*this, at);
  }
  template <class T>
  static void Loop(const ProductPlan& p, char* const* at) {
    std::vector<float> left(static_cast<size_t>(p.m * p.k)), right(static_cast<size_t>(p.k * p.n)),
        sums(static_cast<size_t>(p.m * p.n));
    const auto* a = reinterpret_cast<const T*>(at[0]);
    const auto* b = reinterpret_cast<const T*>(at[1]);
    auto* out = reinterpret_cast<T*>(at[2]);
    p.batch.ForEachRow(0, p.batch.total, [&](const std::array<int64_t, 2>& offsets, int64_t to, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        const T* from_a = a + (offsets[0] + i * p.batch.inner_stride[0]) * p.m * p.k;
        const T* from_b = b + (offsets[1] + i * p.batch.inner_stride[1]) * p.k * p.n;
        Fetch(from_a, p.m, p.k, p.transpose_a ? 1 : p.k, p.transpose_a ? p.m : 1, p.round, left.data());
        Fetch(from_b, p.k, p.n, p.transpose_b ? 1 : p.n, p.transpose_b ? p.k : 1, p.round, right.data());
        MultiplyFolds({left.data(), p.k, 1}, right.data(), p.m, p.n, p.k, p.fold, false, sums.data());
        for (int64_t e = 0; e < p.m * p.n; ++e)
          out[(to + i) * p.m * p.n + e] = static_cast<T>(sums[static_cast<size_t>(e)]);
      }
    });
  }
  int64_t m, n, k, fold;
  bool transpose_a, transpose_b, round;
  Broadcast<2> batch;
  void (*function)(const ProductPlan&, char* const*) = nullptr;
};

template <bool kBatches>
struct MatMulKernel {
  explicit MatMulKernel(sdk::CreateContext& c)
      : transpose_a(c.Bool(kBatches ? "adj_x" : "transpose_a")),
        transpose_b(c.Bool(kBatches ? "adj_y" : "transpose_b")) {}
  struct Plan : ProductPlan {
    Plan(const MatMulKernel& kernel, Shapes& s) : ProductPlan(kernel.transpose_a, kernel.transpose_b, kBatches, s) {}
  };
  bool transpose_a, transpose_b;
};

constexpr sdk::Traits kMatMulTraits = {.constraints = sdk::Constraints<MatrixTypes::Constraint<"T">>::list,
                                 .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE};

}  // namespace

TENON_TPU_KERNEL(MatMul) = Kernel<MatMulKernel<false>>("MatMul", kMatMulTraits);
TENON_TPU_KERNEL(BatchMatMulV2) = Kernel<MatMulKernel<true>>("BatchMatMulV2", kMatMulTraits);

}  // namespace tenon::tpu_sim
