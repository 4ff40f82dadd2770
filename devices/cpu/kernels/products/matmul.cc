// SPDX-License-Identifier: Apache-2.0
// MatMul and BatchMatMul in its three versions, of one element type.
#include <algorithm>
#include <optional>

#include "kernels/common/types.h"
#include "kernels/products/product.h"
#include "tenon/extras/walk/broadcast.h"

namespace tenon::cpu {
namespace {

using sdk::Broadcast;

using MatMulTypes = Types<float, double, int32_t, int64_t, Half, Bfloat16>;

// What Eigen multiplies a T as: integers wrap, halves are summed as float and rounded once.
template <class T>
using Element =
    std::conditional_t<std::is_integral_v<T>, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>, Wide<T>>;

// A half's matrices as floats, in the workspace.
struct WideMatrices {
  WideMatrices() = default;
  explicit WideMatrices(const ProductShape& g) {
    const auto bytes = [](int64_t rows, int64_t columns) {
      return (sdk::Multiply(sdk::Multiply(rows, columns), 4) + 63) / 64 * 64;
    };
    b = bytes(g.m, g.k);
    out = b + bytes(g.k, g.n);
    total = out + bytes(g.m, g.n);
  }
  int64_t b = 0, out = 0, total = 0;  // where b and the product stand
};

template <class To, class From>
void ConvertRange(const From* from, To* to, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) to[i] = static_cast<To>(static_cast<float>(from[i]));
}

// The last two dims of each.
ProductShape ShapeOf(sdk::Dims a, sdk::Dims b, sdk::Dims out, bool transpose_a, bool transpose_b) {
  if (a.size() < 2 || b.size() < 2 || out.size() < 2) {
    sdk::Fail(TENON_INVALID_ARGUMENT, "matrices need 2 dims; the shapes are ", a, " and ", b);
  }
  const int64_t a_rows = a[a.size() - 2], a_columns = a[a.size() - 1];
  const int64_t b_rows = b[b.size() - 2], b_columns = b[b.size() - 1];
  ProductShape g = {};
  g.m = transpose_a ? a_columns : a_rows;
  g.k = transpose_a ? a_rows : a_columns;
  g.n = transpose_b ? b_rows : b_columns;
  g.a_row = transpose_a ? 1 : a_columns;
  g.a_column = transpose_a ? a_columns : 1;
  g.b_row = transpose_b ? 1 : b_columns;
  g.b_column = transpose_b ? b_columns : 1;
  g.c_row = g.n;
  if (g.k != (transpose_b ? b_columns : b_rows)) {
    sdk::Fail(TENON_INVALID_ARGUMENT, "the inner dims of ", a, transpose_a ? " (transposed)" : "", " and ", b,
              transpose_b ? " (transposed)" : "", " differ");
  }
  if (out[out.size() - 2] != g.m || out[out.size() - 1] != g.n) {
    sdk::Fail(TENON_INTERNAL, "the output's shape ", out, " does not fit the product of ", a, " and ", b);
  }
  return g;
}

// One product, shared among threads.
struct OneProduct {
  OneProduct(sdk::PrepareContext& c, const ProductShape& shape) : shape(shape) {
    MatMulTypes::Dispatch(c.input(0).dtype, [&]<class T>(Tag<T>) {
      product = SharedProduct::Make<Element<T>>(c, shape);
      if constexpr (kIsHalf<T>) {
        wide = WideMatrices(shape);
        wide_at = c.Workspace(wide.total);
      }
      function = &Run<T, T>;
      if constexpr (kIsHalf<T>) {
        if (c.output(0).dtype == TENON_DT_FLOAT) function = &Run<T, float>;
      }
    });
  }
  template <class T, class Result>
  static void Run(const OneProduct& p, sdk::RunContext c) {
    using E = Element<T>;
    if constexpr (kIsHalf<T>) {
      constexpr double kCost = 0.3;
      const ProductShape& g = p.shape;
      float* a = c.workspace<float>(p.wide_at);
      float* b = c.workspace<float>(p.wide_at + p.wide.b);
      float* out = c.workspace<float>(p.wide_at + p.wide.out);
      c.ParallelFor(g.m * g.k, kCost, [&](int64_t i, int64_t end) { ConvertRange(c.input<T>(0), a, i, end); });
      c.ParallelFor(g.k * g.n, kCost, [&](int64_t i, int64_t end) { ConvertRange(c.input<T>(1), b, i, end); });
      p.product.Run(c, a, b, out);
      c.ParallelFor(g.m * g.n, kCost, [&](int64_t i, int64_t end) { ConvertRange(out, c.output<Result>(0), i, end); });
    } else {
      p.product.Run(c, c.input<E>(0), c.input<E>(1), c.output<E>(0));
    }
  }
  ProductShape shape;
  SharedProduct product;
  WideMatrices wide;
  int64_t wide_at = 0;
  void (*function)(const OneProduct&, sdk::RunContext) = nullptr;
};

struct MatMulKernel {
  explicit MatMulKernel(sdk::CreateContext& c)
      : transpose_a(c.Bool("transpose_a")), transpose_b(c.Bool("transpose_b")) {}
  struct Plan : OneProduct {
    Plan(const MatMulKernel& kernel, sdk::PrepareContext& c)
        : OneProduct(c, ShapeOf(sdk::DimsOf(c.input(0)), sdk::DimsOf(c.input(1)), sdk::DimsOf(c.output(0)),
                                kernel.transpose_a, kernel.transpose_b)) {}
  };
  void Run(const Plan& plan, sdk::RunContext c) const { plan.function(plan, c); }
  bool transpose_a, transpose_b;
};

// Shares are whole products; a single one is shared itself.
struct BatchMatMulKernel {
  explicit BatchMatMulKernel(sdk::CreateContext& c) : adjoint_x(c.Bool("adj_x")), adjoint_y(c.Bool("adj_y")) {}
  struct Plan {
    Plan(const BatchMatMulKernel& kernel, sdk::PrepareContext& c) {
      const ProductShape shape = ShapeOf(sdk::DimsOf(c.input(0)), sdk::DimsOf(c.input(1)), sdk::DimsOf(c.output(0)),
                                         kernel.adjoint_x, kernel.adjoint_y);
      batch = Broadcast<2>({Batch(c.input(0)), Batch(c.input(1))}, Batch(c.output(0)));
      if (batch.total == 1) {
        one.emplace(c, shape);
        return;
      }
      MatMulTypes::Dispatch(c.input(0).dtype, [&]<class T>(Tag<T>) {
        product = PlanProduct<Element<T>>(shape);
        if constexpr (kIsHalf<T>) wide = WideMatrices(shape);
        cost = ProductCost<Element<T>>(static_cast<double>(shape.m) * static_cast<double>(shape.n) *
                                       static_cast<double>(shape.k)) + 20;
        function = &Batches<T, T>;
        if constexpr (kIsHalf<T>) {
          if (c.output(0).dtype == TENON_DT_FLOAT) function = &Batches<T, float>;
        }
      });
      tasks = std::max<int64_t>(1, std::min(c.threads(), batch.total));
      workspace = c.Workspace(sdk::Multiply(product.bytes + wide.total, tasks));
    }
    static sdk::Dims Batch(const tenon_tensor_view& view) {
      const sdk::Dims dims = sdk::DimsOf(view);
      return dims.first(dims.size() - 2);
    }
    std::optional<OneProduct> one;
    Broadcast<2> batch;
    ProductPlan product;
    WideMatrices wide;
    int64_t tasks = 1, workspace = 0;
    double cost = 0;  // of a product
    void (*function)(const Plan&, sdk::RunContext) = nullptr;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    plan.one ? plan.one->function(*plan.one, c) : plan.function(plan, c);
  }

  template <class T, class Result>
  static void Batches(const Plan& p, sdk::RunContext c) {
    using E = Element<T>;
    const ProductShape& g = p.product.shape;
    c.ParallelFor(p.tasks, p.cost * static_cast<double>(p.batch.total) / static_cast<double>(p.tasks),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t task = begin; task < end; ++task) {
                      char* memory = c.workspace<char>(p.workspace + task * (p.product.bytes + p.wide.total));
                      p.batch.ForEachRow(
                          p.batch.total * task / p.tasks, p.batch.total * (task + 1) / p.tasks,
                          [&](const std::array<int64_t, 2>& at, int64_t to, int64_t n) {
                            for (int64_t i = 0; i < n; ++i) {
                              const int64_t a_at = (at[0] + i * p.batch.inner_stride[0]) * g.m * g.k;
                              const int64_t b_at = (at[1] + i * p.batch.inner_stride[1]) * g.k * g.n;
                              const int64_t out_at = (to + i) * g.m * g.n;
                              c.CheckCancelled();
                              if constexpr (kIsHalf<T>) {
                                char* wide = memory + p.product.bytes;
                                auto* a = reinterpret_cast<float*>(wide);
                                auto* b = reinterpret_cast<float*>(wide + p.wide.b);
                                auto* out = reinterpret_cast<float*>(wide + p.wide.out);
                                ConvertRange(c.input<T>(0) + a_at, a, 0, g.m * g.k);
                                ConvertRange(c.input<T>(1) + b_at, b, 0, g.k * g.n);
                                MultiplyInPieces(c, p.product, g.m > g.n, p.cost, a, b, out, false, memory);
                                ConvertRange(out, c.output<Result>(0) + out_at, 0, g.m * g.n);
                              } else {
                                MultiplyInPieces(c, p.product, g.m > g.n, p.cost, c.input<E>(0) + a_at,
                                                 c.input<E>(1) + b_at, c.output<E>(0) + out_at, false, memory);
                              }
                            }
                          });
                    }
                  });
  }
  bool adjoint_x, adjoint_y;
};

template <class T, class... Results>
constexpr tenon_kernel_registration OneType() {
  using List =
      sdk::Constraints<typename Types<T>::template Constraint<"Ta">, typename Types<T>::template Constraint<"Tb">,
                       typename Types<T, Results...>::template Constraint<"Tout">>;
  return CpuKernel<BatchMatMulKernel>(
      "BatchMatMulV3", {.constraints = List::list, .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE});
}

constexpr sdk::Traits kMatMulTraits = {.constraints = sdk::Constraints<MatMulTypes::Constraint<"T">>::list,
                                 .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE};

}  // namespace

TENON_CPU_KERNEL(MatMul) = CpuKernel<MatMulKernel>("MatMul", kMatMulTraits);
TENON_CPU_KERNEL(BatchMatMul) = CpuKernel<BatchMatMulKernel>("BatchMatMul", kMatMulTraits);
TENON_CPU_KERNEL(BatchMatMulV2) = CpuKernel<BatchMatMulKernel>("BatchMatMulV2", kMatMulTraits);
TENON_CPU_KERNEL(BatchMatMulV3Float) = OneType<float>();
TENON_CPU_KERNEL(BatchMatMulV3Double) = OneType<double>();
TENON_CPU_KERNEL(BatchMatMulV3Half) = OneType<Half, float>();  // the sums as they are, too
TENON_CPU_KERNEL(BatchMatMulV3Bfloat16) = OneType<Bfloat16, float>();
TENON_CPU_KERNEL(BatchMatMulV3Int32) = OneType<int32_t>();
TENON_CPU_KERNEL(BatchMatMulV3Int64) = OneType<int64_t>();

}  // namespace tenon::cpu
