// SPDX-License-Identifier: Apache-2.0
// MatMul and BatchMatMulV2 of complex numbers and of narrow integers, by their definition.
#include <algorithm>

#include "kernels/common/types.h"
#include "tenon/extras/kernel/elementwise.h"
#include "tenon/extras/walk/broadcast.h"

namespace tenon::cpu {
namespace {

using sdk::Broadcast;

using Set = Types<uint8_t, int8_t, int16_t, uint16_t, uint32_t, uint64_t>::AndComplex;

// Of BatchMatMulV2 the adjoint is meant, of MatMul the transpose.
template <bool kBatch>
struct ProductKernel {
  explicit ProductKernel(sdk::CreateContext& c)
      : turn_a(c.Bool(kBatch ? "adj_x" : "transpose_a")), turn_b(c.Bool(kBatch ? "adj_y" : "transpose_b")) {}
  struct Plan {
    Plan(const ProductKernel& kernel, sdk::PrepareContext& c) {
      const sdk::Dims a = sdk::DimsOf(c.input(0)), b = sdk::DimsOf(c.input(1)), out = sdk::DimsOf(c.output(0));
      if (a.size() < 2 || b.size() < 2 || out.size() < 2)
        sdk::Fail(TENON_INVALID_ARGUMENT, "matrices need 2 dims; the shapes are ", a, " and ", b);
      m = out[out.size() - 2];
      n = out[out.size() - 1];
      k = a[a.size() - (kernel.turn_a ? 2 : 1)];
      if (k != b[b.size() - (kernel.turn_b ? 1 : 2)])
        sdk::Fail(TENON_INVALID_ARGUMENT, "the inner dims of ", a, " and ", b, " differ");
      batch = Broadcast<2>({a.first(a.size() - 2), b.first(b.size() - 2)}, out.first(out.size() - 2));
      Set::Dispatch(c.input(0).dtype, [&]<class T>(Tag<T>) { function = &ProductKernel::Multiply<T>; });
    }
    int64_t m, n, k;
    Broadcast<2> batch;
    void (*function)(const ProductKernel&, const Plan&, sdk::RunContext);
  };
  void Run(const Plan& plan, sdk::RunContext c) const { plan.function(*this, plan, c); }

  template <class T>
  static void Multiply(const ProductKernel& kernel, const Plan& p, sdk::RunContext c) {
    const auto turned = [](T x, bool turn) { return kBatch && turn ? sdk::Conjugate(x) : x; };
    p.batch.ForEachRow(0, p.batch.total, [&](const std::array<int64_t, 2>& at, int64_t to, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        const T* a = c.input<T>(0) + (at[0] + i * p.batch.inner_stride[0]) * p.m * p.k;
        const T* b = c.input<T>(1) + (at[1] + i * p.batch.inner_stride[1]) * p.k * p.n;
        T* out = c.output<T>(0) + (to + i) * p.m * p.n;
        c.ParallelFor(p.m, static_cast<double>(p.n * p.k) * 2, [&](int64_t begin, int64_t end) {
          for (int64_t row = begin; row < end; ++row) {
            if (!kernel.turn_b) {  // rows of b, so that there are vectors of columns; a sum's order is the same
              T* const sums = out + row * p.n;
              std::fill_n(sums, p.n, T(0));
              for (int64_t l = 0; l < p.k; ++l) {
                const T x = turned(a[kernel.turn_a ? l * p.m + row : row * p.k + l], kernel.turn_a);
                const T* const y = b + l * p.n;
#pragma GCC ivdep
                for (int64_t column = 0; column < p.n; ++column)
                  sums[column] = sdk::AddOp()(sums[column], sdk::MulOp()(x, y[column]));
              }
              continue;
            }
            for (int64_t column = 0; column < p.n; ++column) {
              T sum = 0;
              for (int64_t l = 0; l < p.k; ++l) {
                const T x = turned(a[kernel.turn_a ? l * p.m + row : row * p.k + l], kernel.turn_a);
                const T y = turned(b[kernel.turn_b ? column * p.k + l : l * p.n + column], kernel.turn_b);
                sum = sdk::AddOp()(sum, sdk::MulOp()(x, y));
              }
              out[row * p.n + column] = sum;
            }
          }
        });
      }
    });
  }
  bool turn_a, turn_b;
};
// BatchMatMulV3 of one type.
template <class T>
constexpr tenon_kernel_registration OneConstrainedType() {
  using List =
      sdk::Constraints<typename Types<T>::template Constraint<"Ta">, typename Types<T>::template Constraint<"Tb">,
                       typename Types<T>::template Constraint<"Tout">>;
  return CpuKernel<ProductKernel<true>>(
      "BatchMatMulV3", {.constraints = List::list, .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE});
}

constexpr sdk::Traits kProduct = {.constraints = sdk::Constraints<Set::Constraint<"T">>::list,
                                  .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE};

}  // namespace

TENON_CPU_KERNEL(MatMulPlain) = CpuKernel<ProductKernel<false>>("MatMul", kProduct);
TENON_CPU_KERNEL(BatchMatMulPlain) = CpuKernel<ProductKernel<true>>("BatchMatMul", kProduct);
TENON_CPU_KERNEL(BatchMatMulV3Int16) = OneConstrainedType<int16_t>();
TENON_CPU_KERNEL(BatchMatMulV3Complex64) = OneConstrainedType<std::complex<float>>();
TENON_CPU_KERNEL(BatchMatMulV3Complex128) = OneConstrainedType<std::complex<double>>();
TENON_CPU_KERNEL(BatchMatMulV2Plain) = CpuKernel<ProductKernel<true>>("BatchMatMulV2", kProduct);

}  // namespace tenon::cpu
