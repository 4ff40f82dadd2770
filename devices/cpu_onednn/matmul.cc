// SPDX-License-Identifier: Apache-2.0
// MatMul through oneDNN: rows or columns of the product are shared, one primitive a share.
#include <algorithm>
#include <cmath>

#include "program.h"

namespace tenon::cpu_onednn {
namespace {

// Below this the plain kernel is as fast: measured, see README.md.
constexpr double kSmallest = 100e3;
// Products and sums on one core.
constexpr double kPerNanosecond = 110;

struct MatMulKernel {
  explicit MatMulKernel(sdk::CreateContext& c)
      : transpose_a(c.Bool("transpose_a")), transpose_b(c.Bool("transpose_b")) {}

  struct Plan {
    Plan(const MatMulKernel& kernel, sdk::PrepareContext& c) {
      const sdk::Dims a = sdk::DimsOf(c.input(0)), b = sdk::DimsOf(c.input(1));
      if (a.size() != 2 || b.size() != 2) sdk::Fail(TENON_UNIMPLEMENTED, "matrices only");
      const int64_t m = kernel.transpose_a ? a[1] : a[0], k = kernel.transpose_a ? a[0] : a[1];
      const int64_t n = kernel.transpose_b ? b[0] : b[1];
      if (k != (kernel.transpose_b ? b[1] : b[0])) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "the inner dims of ", a, " and ", b, " differ");
      }
      const double work = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
      RefuseBelow(work, m == 1 || n == 1 ? HUGE_VAL : kSmallest);  // of vectors it takes up to four times the plain kernel's time
      const dnnl::memory::dims a_strides = kernel.transpose_a ? dnnl::memory::dims{1, m} : dnnl::memory::dims{k, 1};
      const dnnl::memory::dims b_strides = kernel.transpose_b ? dnnl::memory::dims{1, k} : dnnl::memory::dims{n, 1};
      // A step that is given up ends with the shares under way: of a product that lasts they are squares, so large that reading and packing
      // their rows and columns again does not show, and so small that one does not last.
      constexpr double kLongest = 100e6;
      constexpr int64_t kUnit = 64, kLeastEdge = 256;
      const auto edge = static_cast<int64_t>(std::sqrt(kLongest * kPerNanosecond / static_cast<double>(std::max<int64_t>(k, 1)))) / kUnit * kUnit;
      const int64_t square = std::max(edge, kLeastEdge);
      const bool lasts = work / kPerNanosecond / static_cast<double>(Shares(c)) > kLongest;
      const bool by_rows = m >= n;
      const auto chunk = [&](int64_t whole) { return std::max<int64_t>(kUnit, ((whole + Shares(c) - 1) / Shares(c) + kUnit - 1) / kUnit * kUnit); };
      const int64_t most_rows = lasts ? square : by_rows ? chunk(m) : m, most_columns = lasts ? square : by_rows ? n : chunk(n);
      for (int64_t row = 0; row < m; row += most_rows)
        for (int64_t column = 0; column < n; column += most_columns)
          Add(c, {m, k, n}, {row, std::min(most_rows, m - row), column, std::min(most_columns, n - column)}, a_strides, b_strides, lasts);
      cost = work / kPerNanosecond / static_cast<double>(programs.size());
    }

    struct Shape {
      int64_t m, k, n;
    };
    struct Share {
      int64_t row, rows, column, columns;
    };
    void Add(sdk::PrepareContext& c, const Shape& shape, const Share& share, const dnnl::memory::dims& a_strides, const dnnl::memory::dims& b_strides,
             bool lasts) {
      const auto [m, k, n] = shape;
      const auto [row, rows, column, columns] = share;
      Program& p = programs.emplace_back();
      const auto left = Strided({rows, k}, a_strides);
      const auto right = Strided({k, columns}, b_strides);
      const auto product = Strided({rows, columns}, {n, 1});
      const float* constant = lasts ? nullptr : c.Constant<float>(1);  // each share would keep what it packs
      const auto pd = Made([&] {
        return dnnl::matmul::primitive_desc(
            dnnl::matmul::desc(left, constant != nullptr ? Any({k, columns}) : right, product), UserScratchpad(), Engine());
      });
      const int weights =
          constant != nullptr
              ? p.Constant(Packed(c.input(1), column * b_strides[1], right, pd.weights_desc()))
              : p.Input(1, right, column * b_strides[1] * static_cast<int64_t>(sizeof(float)));
      p.Step(c, Made([&] { return dnnl::matmul(pd); }), pd.scratchpad_desc(),
             {{DNNL_ARG_SRC, p.Input(0, left, row * a_strides[0] * static_cast<int64_t>(sizeof(float)))},
              {DNNL_ARG_WEIGHTS, weights},
              {DNNL_ARG_DST, p.Output(0, product, (row * n + column) * static_cast<int64_t>(sizeof(float)))}});
    }
    std::vector<Program> programs;
    double cost;
  };
  void Run(const Plan& plan, sdk::RunContext c) const { RunShares(c, plan.programs, plan.cost); }
  bool transpose_a, transpose_b;
};

}  // namespace

TENON_ONEDNN_KERNEL(MatMul) = OnednnKernel<MatMulKernel>("MatMul");

}  // namespace tenon::cpu_onednn
