// SPDX-License-Identifier: Apache-2.0
#include "kernels/product.h"

#include <algorithm>

// Wider vectors where the machine has them: they change no sum. Sanitizers do not get along with the choice at load
// time.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define TENON_TPU_SIM_CLONES __attribute__((target_clones("default", "avx2")))
#else
#define TENON_TPU_SIM_CLONES
#endif

namespace tenon::tpu_sim {
namespace {

// kRows x kColumns sums stay in registers for a fold; which sums are taken together changes none of them.
constexpr int64_t kRows = 4, kLanes = 8, kColumns = 16;
using Lanes [[gnu::vector_size(kLanes * sizeof(float)), gnu::aligned(alignof(float)), gnu::may_alias]] = float;

template <int64_t kTileRows>
[[gnu::always_inline]] inline void FullTile(Left left, const float* right, int64_t n, int64_t k, bool add,
                                            float* sums) {
  Lanes sum[kTileRows][kColumns / kLanes] = {};
  for (int64_t p = 0; p < k; ++p) {
    for (int64_t v = 0; v < kColumns / kLanes; ++v) {
      const Lanes weights = *reinterpret_cast<const Lanes*>(right + p * n + v * kLanes);
      for (int64_t i = 0; i < kTileRows; ++i) sum[i][v] += left.data[i * left.row + p * left.column] * weights;
    }
  }
  for (int64_t i = 0; i < kTileRows; ++i) {
    for (int64_t v = 0; v < kColumns / kLanes; ++v) {
      Lanes* to = reinterpret_cast<Lanes*>(sums + i * n + v * kLanes);
      *to = (add ? *to : Lanes{}) + sum[i][v];
    }
  }
}

// Fewer columns than a tile has.
void NarrowTile(Left left, const float* right, int64_t rows, int64_t n, int64_t k, int64_t columns, bool add,
                float* sums) {
  for (int64_t i = 0; i < rows; ++i) {
    float sum[kColumns] = {};
    for (int64_t p = 0; p < k; ++p) {
      const float factor = left.data[i * left.row + p * left.column];
      for (int64_t j = 0; j < columns; ++j) sum[j] += factor * right[p * n + j];
    }
    for (int64_t j = 0; j < columns; ++j) sums[i * n + j] = (add ? sums[i * n + j] : 0.0f) + sum[j];
  }
}

}  // namespace

TENON_TPU_SIM_CLONES
void MultiplyFolds(Left left, const float* right, int64_t m, int64_t n, int64_t k, int64_t fold, bool add,
                   float* sums) {
  if (k == 0 && !add) std::fill_n(sums, m * n, 0.0f);
  for (int64_t begin = 0; begin < k; begin += fold) {
    const int64_t depth = std::min(fold, k - begin);
    const bool adds = add || begin > 0;
    for (int64_t j = 0; j < n; j += kColumns) {
      const int64_t columns = std::min(kColumns, n - j);
      const float* weights = right + begin * n + j;
      const Left rows = {left.data + begin * left.column, left.row, left.column};
      if (columns < kColumns) {
        NarrowTile(rows, weights, m, n, depth, columns, adds, sums + j);
        continue;
      }
      int64_t i = 0;
      const auto from = [&] { return Left{rows.data + i * rows.row, rows.row, rows.column}; };
      for (; i + kRows <= m; i += kRows) FullTile<kRows>(from(), weights, n, depth, adds, sums + i * n + j);
      for (; i < m; ++i) FullTile<1>(from(), weights, n, depth, adds, sums + i * n + j);
    }
  }
}

}  // namespace tenon::tpu_sim
