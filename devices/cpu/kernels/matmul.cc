// SPDX-License-Identifier: Apache-2.0
// MatMul and BatchMatMulV2.
#include <algorithm>

#include "kernels/broadcast.h"
#include "kernels/gemm.h"
#include "kernels/types.h"

namespace tenon::cpu {
namespace {

using MatMulTypes = Types<float, double, int32_t, int64_t, Half, Bfloat16>;

// Types without a fast kernel: a row of C at a time, summed in the wider type.
template <class T>
void PlainGemm(const GemmShape& g, const T* a, const T* b, T* c) {
  constexpr int64_t kColumns = 64;
  using Sum = std::conditional_t<std::is_integral_v<T>, std::make_unsigned_t<std::conditional_t<std::is_integral_v<T>, T, int>>, Wide<T>>;
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j0 = 0; j0 < g.n; j0 += kColumns) {
      const int64_t n = std::min(kColumns, g.n - j0);
      Sum sum[kColumns] = {};
      for (int64_t k = 0; k < g.k; ++k) {
        const Sum left = static_cast<Sum>(a[i * g.a_row + k * g.a_column]);
        const T* right = b + k * g.b_row + j0 * g.b_column;
        for (int64_t j = 0; j < n; ++j) sum[j] += left * static_cast<Sum>(right[j * g.b_column]);
      }
      for (int64_t j = 0; j < n; ++j) c[i * g.c_stride + j0 + j] = static_cast<T>(sum[j]);
    }
  }
}

template <class T>
void AnyGemm(sdk::RunContext context, const GemmShape& g, const T* a, const T* b, T* c) {
  if constexpr (std::is_floating_point_v<T>) {
    ParallelGemm(context, g, a, b, c, false);
  } else {
    context.ParallelFor(g.m, static_cast<double>(g.n) * static_cast<double>(g.k), [&](int64_t begin, int64_t end) {
      GemmShape share = g;
      share.m = end - begin;
      PlainGemm(share, a + begin * g.a_row, b, c + begin * g.c_stride);
    });
  }
}

// The last two dims of each.
GemmShape ShapeOf(sdk::Dims a, sdk::Dims b, sdk::Dims out, bool transpose_a, bool transpose_b) {
  if (a.size() < 2 || b.size() < 2 || out.size() < 2) {
    sdk::Fail(TENON_INVALID_ARGUMENT, "matrices need 2 dims; the shapes are ", a, " and ", b);
  }
  const int64_t a_rows = a[a.size() - 2], a_columns = a[a.size() - 1];
  const int64_t b_rows = b[b.size() - 2], b_columns = b[b.size() - 1];
  GemmShape g = {};
  g.m = transpose_a ? a_columns : a_rows;
  g.k = transpose_a ? a_rows : a_columns;
  g.n = transpose_b ? b_rows : b_columns;
  g.a_row = transpose_a ? 1 : a_columns;
  g.a_column = transpose_a ? a_columns : 1;
  g.b_row = transpose_b ? 1 : b_columns;
  g.b_column = transpose_b ? b_columns : 1;
  g.c_stride = g.n;
  if (g.k != (transpose_b ? b_columns : b_rows)) {
    sdk::Fail(TENON_INVALID_ARGUMENT, "the inner dims of ", a, transpose_a ? " (transposed)" : "", " and ", b,
              transpose_b ? " (transposed)" : "", " differ");
  }
  if (out[out.size() - 2] != g.m || out[out.size() - 1] != g.n) {
    sdk::Fail(TENON_INTERNAL, "the output's shape ", out, " does not fit the product of ", a, " and ", b);
  }
  return g;
}

struct MatMulKernel {
  explicit MatMulKernel(sdk::CreateContext& c)
      : transpose_a(c.Bool("transpose_a")), transpose_b(c.Bool("transpose_b")) {}
  struct Plan {
    Plan(const MatMulKernel& kernel, sdk::PrepareContext& c)
        : shape(ShapeOf(sdk::DimsOf(c.input(0)), sdk::DimsOf(c.input(1)), sdk::DimsOf(c.output(0)),
                        kernel.transpose_a, kernel.transpose_b)) {
      MatMulTypes::Dispatch(c.input(0).dtype, [&]<class T>(Tag<T>) {
        function = [](sdk::RunContext context, const GemmShape& g) {
          AnyGemm(context, g, context.input<T>(0), context.input<T>(1), context.output<T>(0));
        };
      });
    }
    GemmShape shape;
    void (*function)(sdk::RunContext, const GemmShape&);
  };
  void Run(const Plan& plan, sdk::RunContext c) const { plan.function(c, plan.shape); }
  bool transpose_a, transpose_b;
};

struct BatchMatMulKernel {
  explicit BatchMatMulKernel(sdk::CreateContext& c) : adjoint_x(c.Bool("adj_x")), adjoint_y(c.Bool("adj_y")) {}
  struct Plan {
    Plan(const BatchMatMulKernel& kernel, sdk::PrepareContext& c)
        : shape(ShapeOf(sdk::DimsOf(c.input(0)), sdk::DimsOf(c.input(1)), sdk::DimsOf(c.output(0)), kernel.adjoint_x,
                        kernel.adjoint_y)),
          batch({Batch(c.input(0)), Batch(c.input(1))}, Batch(c.output(0))) {
      MatMulTypes::Dispatch(c.input(0).dtype, [&]<class T>(Tag<T>) { function = &Batches<T>; });
    }
    static sdk::Dims Batch(const tenon_tensor_view& view) {
      const sdk::Dims dims = sdk::DimsOf(view);
      return dims.first(dims.size() - 2);
    }
    GemmShape shape;
    Broadcast<2> batch;
    void (*function)(const Plan&, sdk::RunContext);
  };
  void Run(const Plan& plan, sdk::RunContext c) const { plan.function(plan, c); }

  template <class T>
  static void Batches(const Plan& plan, sdk::RunContext c) {
    const GemmShape& g = plan.shape;
    const T* x = c.input<T>(0);
    const T* y = c.input<T>(1);
    T* out = c.output<T>(0);
    if (plan.batch.total == 1) {
      AnyGemm(c, g, x, y, out);
      return;
    }
    const double cost = GemmCost(static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k)) + 20;
    c.ParallelFor(plan.batch.total, cost, [&](int64_t begin, int64_t end) {
      plan.batch.ForEachRow(begin, end, [&](const std::array<int64_t, 2>& at, int64_t to, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
          const T* a = x + (at[0] + i * plan.batch.inner_stride[0]) * g.m * g.k;
          const T* b = y + (at[1] + i * plan.batch.inner_stride[1]) * g.k * g.n;
          T* to_matrix = out + (to + i) * g.m * g.n;
          if constexpr (std::is_floating_point_v<T>) {
            Gemm(g, a, b, to_matrix, false);
          } else {
            PlainGemm(g, a, b, to_matrix);
          }
        }
      });
    });
  }
  bool adjoint_x, adjoint_y;
};

constexpr sdk::Traits kTraits = {.constraints = sdk::Constraints<MatMulTypes::Constraint<"T">>::list,
                                 .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE};

}  // namespace

TENON_CPU_KERNEL(MatMul) = CpuKernel<MatMulKernel>("MatMul", kTraits);
TENON_CPU_KERNEL(BatchMatMulV2) = CpuKernel<BatchMatMulKernel>("BatchMatMulV2", kTraits);

}  // namespace tenon::cpu
