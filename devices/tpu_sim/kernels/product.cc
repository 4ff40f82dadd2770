// SPDX-License-Identifier: Apache-2.0
#include "kernels/product.h"

#include <algorithm>

namespace tenon::tpu_sim {
namespace {

// kRows x kColumns sums stay in registers for a fold; which sums are taken together changes none of them.
constexpr int64_t kColumns = 8;

template <int64_t kRows>
void Tile(const float* left, int64_t left_row, const float* right, int64_t n, int64_t k, int64_t columns, bool add, float* sums) {
  float sum[kRows][kColumns] = {};
  if (columns == kColumns) {
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t i = 0; i < kRows; ++i) {
        const float factor = left[i * left_row + p];
        for (int64_t j = 0; j < kColumns; ++j) sum[i][j] += factor * right[p * n + j];
      }
    }
  } else {
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t i = 0; i < kRows; ++i) {
        const float factor = left[i * left_row + p];
        for (int64_t j = 0; j < columns; ++j) sum[i][j] += factor * right[p * n + j];
      }
    }
  }
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t j = 0; j < columns; ++j) sums[i * n + j] = (add ? sums[i * n + j] : 0.0f) + sum[i][j];
  }
}

}  // namespace

void MultiplyFolds(const float* left, const float* right, int64_t m, int64_t n, int64_t k, int64_t fold, bool add, float* sums) {
  constexpr int64_t kRows = 4;
  if (k == 0 && !add) std::fill_n(sums, m * n, 0.0f);
  for (int64_t begin = 0; begin < k; begin += fold) {
    const int64_t depth = std::min(fold, k - begin);
    const bool adds = add || begin > 0;
    for (int64_t j = 0; j < n; j += kColumns) {
      const int64_t columns = std::min(kColumns, n - j);
      const float* weights = right + begin * n + j;
      int64_t i = 0;
      for (; i + kRows <= m; i += kRows) Tile<kRows>(left + i * k + begin, k, weights, n, depth, columns, adds, sums + i * n + j);
      for (; i < m; ++i) Tile<1>(left + i * k + begin, k, weights, n, depth, columns, adds, sums + i * n + j);
    }
  }
}

}  // namespace tenon::tpu_sim
