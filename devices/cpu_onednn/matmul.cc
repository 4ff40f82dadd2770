// SPDX-License-Identifier: Apache-2.0
// MatMul through oneDNN: rows or columns of the product are shared, one primitive or one call of its GEMM a share. In
// bfloat16 stacks of matrices, too, of which shares are products; the result may be the sums in float32.
#include <algorithm>
#include <cmath>
#include <vector>

#include "program.h"

namespace tenon::cpu_onednn {
namespace {

using dnnl::memory;

// Below this the plain kernel is as fast: measured, see CHOICES.md.
constexpr double kSmallestMatMul = 100e3;
// Products and sums on one core.
constexpr double kMatMulPerNanosecond = 110;

struct Shape {
  int64_t m, k, n;
};

// Whether a share of a product of floats takes oneDNN's GEMM and not its primitive, which reads a second matrix that
// nobody packed as it lies: one of 3072 columns at a third of the speed. Measured, see CHOICES.md.
template <class Kernel>
bool PrefersGemm(const Kernel& kernel, bool packed, const Shape& share) {
  const auto [m, k, n] = share;
  if (packed) return !kernel.transpose_a && m >= 64 && k >= 768 && n >= 384 && (n <= 1024 || m >= 512);
  return !kernel.transpose_b && m >= 32 && n >= 128 && (!kernel.transpose_a || m < 1024 || n > 1024);
}

template <bool kStacks>
struct MatMulKernel {
  explicit MatMulKernel(sdk::CreateContext& c)
      : transpose_a(c.Bool(kStacks ? "adj_x" : "transpose_a")),
        transpose_b(c.Bool(kStacks ? "adj_y" : "transpose_b")) {}

  struct Plan {
    Plan(const MatMulKernel& kernel, sdk::PrepareContext& c) : type(TypeOf(c.input(0))), result(TypeOf(c.output(0))) {
      RefuseWithoutBfloat16(type);
      const sdk::Dims a = sdk::DimsOf(c.input(0)), b = sdk::DimsOf(c.input(1));
      if (a.size() < 2 || b.size() < 2 || (!kStacks && (a.size() != 2 || b.size() != 2)))
        sdk::Fail(TENON_UNIMPLEMENTED, "matrices only");
      const int64_t a_rows = a[a.size() - 2], a_columns = a[a.size() - 1], b_rows = b[b.size() - 2],
                    b_columns = b[b.size() - 1];
      const int64_t k = kernel.transpose_a ? a_rows : a_columns, n = kernel.transpose_b ? b_rows : b_columns;
      if (k != (kernel.transpose_b ? b_columns : b_rows)) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "the inner dims of ", a, " and ", b, " differ");
      }
      const sdk::Dims a_stack = a.first(a.size() - 2), b_stack = b.first(b.size() - 2);
      const bool one_b = std::all_of(b_stack.begin(), b_stack.end(), [](int64_t dim) { return dim == 1; });
      // Where all share one second matrix, the rows of all are one matrix.
      const bool joined = one_b && (!kernel.transpose_a || sdk::Count(a_stack) == 1);
      if (!joined) {
        shape = {kernel.transpose_a ? a_columns : a_rows, k, n};
        AddStacks(kernel, c);
        return;
      }
      shape = {kernel.transpose_a ? a_columns : sdk::Count(a_stack) * a_rows, k, n};
      const int64_t m = shape.m;
      const double work = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
      // Of vectors of floats it takes up to four times the plain kernel's time; the plain one would make floats of the
      // whole matrix.
      RefuseBelow(work, type == ElementType::f32 && (m == 1 || n == 1) ? HUGE_VAL : kSmallestMatMul);
      a_strides = kernel.transpose_a ? dnnl::memory::dims{1, m} : dnnl::memory::dims{k, 1};
      b_strides = kernel.transpose_b ? dnnl::memory::dims{1, k} : dnnl::memory::dims{n, 1};
      constexpr double kLongest = 100e6;
      const bool lasts = work / kMatMulPerNanosecond / static_cast<double>(Shares(c)) > kLongest;
      Divide(Shares(c), lasts ? kLongest * kMatMulPerNanosecond : 0);
      cost = work / kMatMulPerNanosecond / static_cast<double>(shares.size());
      const bool constant = !lasts && c.Constant<char>(1) != nullptr;  // each share would keep what it packs
      const bool by_gemm =
          type == ElementType::f32 && PrefersGemm(kernel, constant, {shares.front().rows, k, shares.front().columns});
      for (const Share& share : shares) by_gemm ? AddByGemm(kernel, share) : Add(c, share, constant);
    }

    struct Share {
      int64_t row, rows, column, columns;
    };
    // Shares of the product's rows or columns. A step that is given up ends with the shares under way: of a product
    // that lasts they are squares of at most so many products and sums (else 0), so large that reading and packing
    // their rows and columns again does not show, and so small that one does not last.
    void Divide(int64_t threads, double most) {
      constexpr int64_t kUnit = 64, kLeastEdge = 256;
      const auto [m, k, n] = shape;
      const int64_t square =
          std::max(static_cast<int64_t>(std::sqrt(most / static_cast<double>(std::max<int64_t>(k, 1)))) / kUnit * kUnit,
                   kLeastEdge);
      const bool lasts = most > 0, by_rows = m >= n;
      const auto chunk = [&](int64_t whole) {
        return std::max<int64_t>(kUnit, ((whole + threads - 1) / threads + kUnit - 1) / kUnit * kUnit);
      };
      const int64_t most_rows = lasts     ? square
                                : by_rows ? chunk(m)
                                          : m,
                    most_columns = lasts     ? square
                                   : by_rows ? n
                                             : chunk(n);
      for (int64_t row = 0; row < m; row += most_rows)
        for (int64_t column = 0, columns = 0; column < n; column += columns) {
          columns = std::min(most_columns, n - column);
          if (n - column - columns == 1) ++columns;  // no share of one column, which oneDNN 3 gets wrong (library_3.h)
          shares.push_back({row, std::min(most_rows, m - row), column, columns});
        }
    }

    // Stacks of matrices: one primitive a share of the first dim that is more than 1.
    void AddStacks(const MatMulKernel& kernel, sdk::PrepareContext& c) {
      const auto [m, k, n] = shape;
      const sdk::Dims a = sdk::DimsOf(c.input(0)), b = sdk::DimsOf(c.input(1)), out = sdk::DimsOf(c.output(0));
      constexpr size_t kMostDims = 12;
      if (out.size() > kMostDims) sdk::Fail(TENON_UNIMPLEMENTED, "more dims than oneDNN knows");
      const double work = static_cast<double>(sdk::Count(out)) * static_cast<double>(k);
      RefuseBelow(work, kSmallestMatMul);
      RefuseLong(work / kMatMulPerNanosecond / static_cast<double>(std::max<int64_t>(1, out[0])));
      const size_t stacked = out.size() - 2;
      size_t shared = 0;
      while (shared + 1 < stacked && out[shared] == 1) ++shared;
      const auto layout = [&](sdk::Dims dims, bool turned, int64_t rows, int64_t columns) {
        memory::dims sizes(out.size(), 1), strides(out.size());
        std::copy(dims.begin(), dims.end() - 2, sizes.end() - static_cast<ptrdiff_t>(dims.size()));
        sizes[stacked] = rows, sizes[stacked + 1] = columns;
        strides[stacked] = turned ? 1 : columns, strides[stacked + 1] = turned ? rows : 1;
        int64_t stride = rows * columns;
        for (size_t i = stacked; i-- > 0; stride *= sizes[i]) strides[i] = stride;
        return std::pair(sizes, strides);
      };
      const auto left = layout(a, kernel.transpose_a, m, k), right = layout(b, kernel.transpose_b, k, n),
                 product = layout(out, false, m, n);
      for (const auto& [from, to] : Parts(out[shared], SharesAndPieces(c, work / kMatMulPerNanosecond, 1e6))) {
        const auto part = [&, from = from, to = to](const std::pair<memory::dims, memory::dims>& whole,
                                                    ElementType of) {
          memory::dims sizes = whole.first;
          const int64_t at = sizes[shared] == 1 ? 0 : from * whole.second[shared] * BytesOf(of);
          if (sizes[shared] != 1) sizes[shared] = to - from;
          return std::pair(Strided(sizes, whole.second, of), at);
        };
        const auto [x, x_at] = part(left, type);
        const auto [y, y_at] = part(right, type);
        const auto [z, z_at] = part(product, result);
        const auto pd = Made([&, x = x, y = y, z = z] { return library::Product(x, y, z, UserScratchpad()); });
        RefuseSlow(pd);
        Program& p = programs.emplace_back();
        p.Step(c, Made([&] { return dnnl::matmul(pd); }), pd.scratchpad_desc(),
               {{DNNL_ARG_SRC, p.Input(0, x, x_at)},
                {DNNL_ARG_WEIGHTS, p.Input(1, y, y_at)},
                {DNNL_ARG_DST, p.Output(0, z, z_at)}});
      }
      cost = work / kMatMulPerNanosecond / static_cast<double>(programs.size());
    }
    void AddByGemm(const MatMulKernel& kernel, const Share& share) {
      const auto [m, k, n] = shape;
      const auto [row, rows, column, columns] = share;
      Program& p = programs.emplace_back();
      const int left = p.Input(0, Strided({rows, k}, a_strides), row * a_strides[0] * BytesOf(type));
      const int right = p.Input(1, Strided({k, columns}, b_strides), column * b_strides[1] * BytesOf(type));
      const int product = p.Output(0, Strided({rows, columns}, {n, 1}), (row * n + column) * BytesOf(type));
      p.Multiply({kernel.transpose_a, kernel.transpose_b, rows, k, columns, kernel.transpose_a ? m : k,
                  kernel.transpose_b ? k : n, n},
                 left, right, product);
    }
    void Add(sdk::PrepareContext& c, const Share& share, bool constant) {
      const auto [m, k, n] = shape;
      const auto [row, rows, column, columns] = share;
      Program& p = programs.emplace_back();
      const auto left = Strided({rows, k}, a_strides, type);
      const auto right = Strided({k, columns}, b_strides, type);
      const auto product = Strided({rows, columns}, {n, 1}, result);
      const auto pd = Made([&] {
        return library::Product(left, constant ? Any({k, columns}, type) : right, product, UserScratchpad());
      });
      const int weights =
          constant
              ? p.Constant(Packed(c.input(1), column * b_strides[1], right, pd.weights_desc()))
              : p.Input(1, right, column * b_strides[1] * BytesOf(type));
      p.Step(c, Made([&] { return dnnl::matmul(pd); }), pd.scratchpad_desc(),
             {{DNNL_ARG_SRC, p.Input(0, left, row * a_strides[0] * BytesOf(type))},
              {DNNL_ARG_WEIGHTS, weights},
              {DNNL_ARG_DST, p.Output(0, product, (row * n + column) * BytesOf(result))}});
    }
    ElementType type, result;
    Shape shape{};
    dnnl::memory::dims a_strides, b_strides;  // of rows and columns of one product
    std::vector<Share> shares;                // of its result, a program each
    std::vector<Program> programs;
    double cost = 0;  // of a share, in nanoseconds
  };
  void Run(const Plan& plan, sdk::RunContext c) const { RunShares(c, plan.programs, plan.cost); }
  bool transpose_a, transpose_b;
};

}  // namespace

// Stacks of float32 are left to the plain kernel.
using ProductOfBfloat16 = sdk::Constraints<sdk::Allowed<"Ta", TENON_DT_BFLOAT16>, sdk::Allowed<"Tb", TENON_DT_BFLOAT16>,
                                           sdk::Allowed<"Tout", TENON_DT_BFLOAT16, TENON_DT_FLOAT>>;

TENON_ONEDNN_KERNEL(MatMul) = OnednnKernel<MatMulKernel<false>>("MatMul");
TENON_ONEDNN_KERNEL(BatchMatMul) = OnednnKernel<MatMulKernel<true>, Bfloat16Alone>("BatchMatMul");
TENON_ONEDNN_KERNEL(BatchMatMulV2) = OnednnKernel<MatMulKernel<true>, Bfloat16Alone>("BatchMatMulV2");
TENON_ONEDNN_KERNEL(BatchMatMulV3) = OnednnKernel<MatMulKernel<true>, ProductOfBfloat16>("BatchMatMulV3");

}  // namespace tenon::cpu_onednn
