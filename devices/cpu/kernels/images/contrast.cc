// SPDX-License-Identifier: Apache-2.0
// AdjustContrastv2: (x - mean) * factor + mean, the mean of each image's channel.
//
// Pixels have few channels: so many of them are taken as one row that a row fills the vectors.
#include <algorithm>

#include "kernels/common/types.h"

namespace tenon::cpu {
namespace {

constexpr int64_t kColumns = 128;  // of a row, at most, that is summed at once
constexpr int64_t kBlockRows = 64;  // are added as floats, and those sums as doubles

// Adds the columns of rows that lie `stride` apart.
template <class T>
void AddColumns(const T* x, int64_t rows, int64_t stride, int64_t columns, double* totals) {
  for (int64_t r0 = 0; r0 < rows; r0 += kBlockRows) {
    float block[kColumns] = {};
    const int64_t r1 = std::min(rows, r0 + kBlockRows);
    for (int64_t r = r0; r < r1; ++r) {
#pragma GCC ivdep
      for (int64_t j = 0; j < columns; ++j) block[j] += static_cast<float>(x[r * stride + j]);
    }
    for (int64_t j = 0; j < columns; ++j) totals[j] += static_cast<double>(block[j]);
  }
}

class ContrastKernel {
 public:
  struct Plan {
    Plan(const ContrastKernel&, sdk::PrepareContext& c) {
      const sdk::Dims dims = sdk::DimsOf(c.input(0));
      channels = dims[dims.size() - 1];
      pixels = dims[dims.size() - 2] * dims[dims.size() - 3];
      images = pixels * channels == 0 ? 0 : sdk::Count(c.input(0)) / (pixels * channels);
      joined = std::max<int64_t>(1, kColumns / std::max<int64_t>(channels, 1));
      c.Workspace(images * joined * channels * static_cast<int64_t>(sizeof(float)));
    }
    int64_t images = 0, pixels = 0, channels = 0;
    int64_t joined = 1;  // pixels that are one row
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    if (plan.images == 0) return;
    Types<float, Half>::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) { Typed<T>(plan, c); });
  }

 private:
  template <class T>
  static void Typed(const Plan& plan, const sdk::RunContext& c) {
    const T* const x = c.input<T>(0);
    T* const y = c.output<T>(0);
    const float factor = *c.input<float>(1);
    auto* const means = c.workspace<float>();
    const int64_t row = plan.joined * plan.channels, image = plan.pixels * plan.channels;
    c.ParallelFor(plan.images, 0.05 * static_cast<double>(image), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) Means(plan, x + i * image, means + i * row);
    });
    const int64_t rows = (image + row - 1) / row;
    c.ParallelFor(plan.images * rows, 0.15 * static_cast<double>(row), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t at = r / rows * image + r % rows * row, n = std::min(row, image - r % rows * row);
        const float* const mean = means + r / rows * row;
#pragma GCC ivdep
        for (int64_t j = 0; j < n; ++j) y[at + j] = T((static_cast<float>(x[at + j]) - mean[j]) * factor + mean[j]);
      }
    });
  }

  // Those of one image, as often as pixels are joined.
  template <class T>
  static void Means(const Plan& plan, const T* x, float* means) {
    const int64_t channels = plan.channels, row = plan.joined * channels, rows = plan.pixels / plan.joined;
    for (int64_t first = 0; first < row; first += kColumns) {
      double totals[kColumns] = {};
      const int64_t columns = std::min(kColumns, row - first);
      AddColumns(x + first, rows, row, columns, totals);
      if (plan.joined > 1) {  // all columns are here
        for (int64_t j = channels; j < row; ++j) totals[j % channels] += totals[j];
        for (int64_t j = rows * row; j < plan.pixels * channels; ++j)
          totals[j % channels] += static_cast<double>(static_cast<float>(x[j]));
        for (int64_t j = 0; j < row; ++j)
          means[j] = static_cast<float>(totals[j % channels] / static_cast<double>(plan.pixels));
      } else {
        for (int64_t j = 0; j < columns; ++j)
          means[first + j] = static_cast<float>(totals[j] / static_cast<double>(plan.pixels));
      }
    }
  }
};

}  // namespace

TENON_CPU_KERNEL(AdjustContrastv2) = CpuKernel<ContrastKernel>(
    "AdjustContrastv2",
    {.constraints = sdk::Constraints<Types<float, Half>::Constraint<"T">>::list, .in_place = kInPlaceFirst});

}  // namespace tenon::cpu
