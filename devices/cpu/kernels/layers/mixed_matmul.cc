// SPDX-License-Identifier: Apache-2.0
// BatchMatMulV3 of two element types: bytes to int32, and bytes with bfloat16.
// Tile by tile of the output, which stands in sums on the stack.
#include <algorithm>

#include "kernels/common/types.h"
#include "tenon/extras/walk/broadcast.h"

namespace tenon::cpu {
namespace {

using Bytes = Types<uint8_t, int8_t>;
using ByteOrBfloat16 = Types<uint8_t, int8_t, Bfloat16>;

struct MixedKernel {
  explicit MixedKernel(sdk::CreateContext& c) : adjoint_x(c.Bool("adj_x")), adjoint_y(c.Bool("adj_y")) {}
  void Run(sdk::RunContext c) const {
    ByteOrBfloat16::Dispatch(c.input_view(0).dtype, [&]<class A>(Tag<A>) {
      ByteOrBfloat16::Dispatch(c.input_view(1).dtype, [&]<class B>(Tag<B>) {
        if constexpr (std::is_integral_v<A> && std::is_integral_v<B>) {
          Typed<A, B, int32_t, uint32_t>(c);
        } else {
          Typed<A, B, Bfloat16, float>(c);
        }
      });
    });
  }

 private:
  template <class A, class B, class Out, class Sum>
  void Typed(sdk::RunContext c) const {
    const sdk::Dims x = sdk::DimsOf(c.input_view(0)), y = sdk::DimsOf(c.input_view(1)),
                    out = sdk::DimsOf(c.output_view(0));
    const auto batch = [](sdk::Dims dims) { return dims.first(dims.size() - 2); };
    const sdk::Broadcast<2> batches({batch(x), batch(y)}, batch(out));
    const int64_t m = out[out.size() - 2], n = out.back(), k = x[x.size() - (adjoint_x ? 2 : 1)];
    if (y[y.size() - (adjoint_y ? 1 : 2)] != k)
      sdk::Fail(TENON_INVALID_ARGUMENT, "the inner dims of ", x, " and ", y, " differ");
    const int64_t x_row = adjoint_x ? 1 : k, x_column = adjoint_x ? m : 1, y_row = adjoint_y ? 1 : n,
                  y_column = adjoint_y ? k : 1;
    batches.ForEachRow(0, batches.total, [&](const std::array<int64_t, 2>& at, int64_t to, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        const A* a = c.input<A>(0) + (at[0] + i * batches.inner_stride[0]) * m * k;
        const B* b = c.input<B>(1) + (at[1] + i * batches.inner_stride[1]) * k * n;
        Out* result = c.output<Out>(0) + (to + i) * m * n;
        const int64_t across = (n + kColumns - 1) / kColumns, tiles = (m + kRows - 1) / kRows * across;
        const double cost =
            0.1 * static_cast<double>(k) * static_cast<double>(std::min(m, kRows) * std::min(n, kColumns));
        c.ParallelFor(tiles, cost, [&](int64_t begin, int64_t end) {
          for (int64_t tile = begin; tile < end; ++tile) {
            const int64_t row = tile / across * kRows, column = tile % across * kColumns;
            const int64_t rows = std::min(kRows, m - row), columns = std::min(kColumns, n - column);
            Sum sums[kRows][kColumns] = {};
            const A* left = a + row * x_row;
            const B* right = b + column * y_column;
            if (y_column == 1) AddRows(left, x_row, x_column, right, y_row, rows, columns, k, sums);
            else AddDots(left, x_row, x_column, right, y_column, rows, columns, k, sums);
            for (int64_t r = 0; r < rows; ++r) {
              for (int64_t i = 0; i < columns; ++i) result[(row + r) * n + column + i] = static_cast<Out>(sums[r][i]);
            }
          }
        });
      }
    });
  }
  // A tile of the output. Integers wrap: their sums are unsigned.
  static constexpr int64_t kRows = 4, kColumns = 256;
  // y lies row by row: each is read once, along its columns.
  template <class A, class B, class Sum>
  static void AddRows(const A* x, int64_t x_row, int64_t x_column, const B* y, int64_t y_row, int64_t rows,
                      int64_t columns, int64_t k, Sum (&sums)[kRows][kColumns]) {
    for (int64_t j = 0; j < k; ++j, y += y_row) {
      for (int64_t r = 0; r < rows; ++r) {
        const Sum factor = static_cast<Sum>(x[r * x_row + j * x_column]);
        for (int64_t i = 0; i < columns; ++i) sums[r][i] += factor * static_cast<Sum>(y[i]);
      }
    }
  }
  // y lies column by column.
  template <class A, class B, class Sum>
  static void AddDots(const A* x, int64_t x_row, int64_t x_column, const B* y, int64_t y_column, int64_t rows,
                      int64_t columns, int64_t k, Sum (&sums)[kRows][kColumns]) {
    for (int64_t i = 0; i < columns; ++i) {
      for (int64_t r = 0; r < rows; ++r) {
        const A* row = x + r * x_row;
        const B* column = y + i * y_column;
        Sum sum{0};
        for (int64_t j = 0; j < k; ++j) sum += static_cast<Sum>(row[j * x_column]) * static_cast<Sum>(column[j]);
        sums[r][i] = sum;
      }
    }
  }
  bool adjoint_x, adjoint_y;
};

template <class A, class B, class Out>
constexpr tenon_kernel_registration Mixed() {
  using List = sdk::Constraints<typename A::template Constraint<"Ta">, typename B::template Constraint<"Tb">,
                                typename Out::template Constraint<"Tout">>;
  return CpuKernel<MixedKernel>(
      "BatchMatMulV3", {.constraints = List::list, .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE});
}

}  // namespace

TENON_CPU_KERNEL(BatchMatMulV3Bytes) = Mixed<Bytes, Bytes, Types<int32_t>>();
TENON_CPU_KERNEL(BatchMatMulV3ByteX) = Mixed<Bytes, Types<Bfloat16>, Types<Bfloat16>>();
TENON_CPU_KERNEL(BatchMatMulV3ByteY) = Mixed<Types<Bfloat16>, Bytes, Types<Bfloat16>>();

}  // namespace tenon::cpu
