// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tenon::cpu {
namespace {

// Steps of the sum in one block: a panel of B, kDepth * kTileColumns, stays in the first-level cache.
constexpr int64_t kDepth = 256;
// Rows of A in one block: kRows * kDepth elements stay in the second-level cache.
constexpr int64_t kRows = 384;

// The tile in registers. kVectors vectors a row; of the last one `lanes` count when kPartial.
template <class T, int kRowCount, int kVectors, bool kPartial>
void Tile(const T* const* rows, const Segments& a, const T* b, int64_t b_stride, T* c, int64_t c_stride, int lanes,
          bool accumulate) {
  using S = Simd<T>;
  using V = typename S::V;
  V sum[kRowCount][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRowCount; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sum[r][v] = S::Zero();
  }
  for (int64_t s = 0; s < a.count; ++s) {
    const T* row[kRowCount];
#pragma GCC unroll 8
    for (int r = 0; r < kRowCount; ++r) row[r] = rows[r] + a.offsets[s];
    const int64_t step = a.step;
    int64_t at = 0;
    for (int64_t k = 0; k < a.length; ++k) {
      V right[kVectors];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        right[v] = kPartial && v == kVectors - 1 ? S::LoadFirst(b + v * S::kLanes, lanes) : S::Load(b + v * S::kLanes);
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRowCount; ++r) {
        const V left = S::Set(row[r][at]);
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) sum[r][v] = S::Fma(left, right[v], sum[r][v]);
      }
      at += step;
      b += b_stride;
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRowCount; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      T* to = c + r * c_stride + v * S::kLanes;
      if (kPartial && v == kVectors - 1) {
        S::StoreFirst(to, accumulate ? S::Add(sum[r][v], S::LoadFirst(to, lanes)) : sum[r][v], lanes);
      } else {
        S::Store(to, accumulate ? S::Add(sum[r][v], S::Load(to)) : sum[r][v]);
      }
    }
  }
}

template <class T>
using TileFunction = void (*)(const T* const*, const Segments&, const T*, int64_t, T*, int64_t, int, bool);

// [rows - 1] for every row count of a tile.
template <class T, int kVectors, bool kPartial, int... kRowIndex>
constexpr std::array<TileFunction<T>, sizeof...(kRowIndex)> TilesOf(std::integer_sequence<int, kRowIndex...>) {
  return {&Tile<T, kRowIndex + 1, kVectors, kPartial>...};
}
template <class T, int kVectors, bool kPartial, int kMaxRows = kTileRows>
constexpr auto kTiles = TilesOf<T, kVectors, kPartial>(std::make_integer_sequence<int, kMaxRows>());

// A few rows leave registers for more columns, which hides the latency of the multiply-add.
constexpr int kWideRows = 2;
constexpr int kWideVectors = kSimdRegisters == 32 ? 8 : 4;

// Dot products where both A's rows and B's columns are contiguous and there are too few rows to pay for copying B.
template <class T, int kRowCount>
void Dots(const T* const* rows, const T* b, int64_t b_column, int64_t k, T* c, int64_t c_stride, int64_t columns,
          bool accumulate) {
  using S = Simd<T>;
  using V = typename S::V;
  constexpr int kColumns = 4;
  for (int64_t j = 0; j < columns; j += kColumns) {
    const int n = static_cast<int>(std::min<int64_t>(kColumns, columns - j));
    const T* column[kColumns];
    for (int q = 0; q < kColumns; ++q) column[q] = b + (j + std::min(q, n - 1)) * b_column;
    V sum[kRowCount][kColumns];
    for (int r = 0; r < kRowCount; ++r) {
      for (int q = 0; q < kColumns; ++q) sum[r][q] = S::Zero();
    }
    int64_t i = 0;
    for (; i + S::kLanes <= k; i += S::kLanes) {
#pragma GCC unroll 8
      for (int r = 0; r < kRowCount; ++r) {
        const V left = S::Load(rows[r] + i);
#pragma GCC unroll 8
        for (int q = 0; q < kColumns; ++q) sum[r][q] = S::Fma(left, S::Load(column[q] + i), sum[r][q]);
      }
    }
    if (i < k) {
      const int rest = static_cast<int>(k - i);
      for (int r = 0; r < kRowCount; ++r) {
        const V left = S::LoadFirst(rows[r] + i, rest);
        for (int q = 0; q < kColumns; ++q) sum[r][q] = S::Fma(left, S::LoadFirst(column[q] + i, rest), sum[r][q]);
      }
    }
    for (int r = 0; r < kRowCount; ++r) {
      for (int q = 0; q < n; ++q) {
        T* to = c + r * c_stride + j + q;
        *to = S::Sum(sum[r][q]) + (accumulate ? *to : T(0));
      }
    }
  }
}
constexpr int kDotRows = 4;

// panel[i][j] = b(i, j), rows kTileColumns apart.
template <class T>
void CopyPanel(const T* b, int64_t b_row, int64_t b_column, int64_t depth, int64_t columns, T* panel) {
  constexpr int64_t kWidth = kTileColumns<T>;
  if (b_column == 1) {
    for (int64_t i = 0; i < depth; ++i) std::copy_n(b + i * b_row, columns, panel + i * kWidth);
    return;
  }
  // A block of 8 x 8 at a time keeps the lines that are read in the cache.
  for (int64_t i0 = 0; i0 < depth; i0 += 8) {
    const int64_t i1 = std::min(depth, i0 + 8);
    for (int64_t j = 0; j < columns; ++j) {
      const T* from = b + j * b_column + i0 * b_row;
      T* to = panel + i0 * kWidth + j;
      for (int64_t i = i0; i < i1; ++i, from += b_row, to += kWidth) *to = *from;
    }
  }
}

}  // namespace

template <class T>
void MultiplyTile(const T* const* rows, int row_count, const Segments& a, const T* b, int64_t b_stride, T* c,
                  int64_t c_stride, int64_t columns, bool accumulate) {
  constexpr int64_t kLanes = Simd<T>::kLanes;
  int64_t j = 0;
  if (row_count <= kWideRows) {
    for (; j + kWideVectors * kLanes <= columns; j += kWideVectors * kLanes) {
      kTiles<T, kWideVectors, false, kWideRows>[row_count - 1](rows, a, b + j, b_stride, c + j, c_stride, 0, accumulate);
    }
  }
  for (; j + 2 * kLanes <= columns; j += 2 * kLanes) {
    kTiles<T, 2, false>[row_count - 1](rows, a, b + j, b_stride, c + j, c_stride, 0, accumulate);
  }
  const int64_t rest = columns - j;
  if (rest == 0) return;
  if (rest == kLanes) {
    kTiles<T, 1, false>[row_count - 1](rows, a, b + j, b_stride, c + j, c_stride, 0, accumulate);
  } else if (rest < kLanes) {
    kTiles<T, 1, true>[row_count - 1](rows, a, b + j, b_stride, c + j, c_stride, static_cast<int>(rest), accumulate);
  } else {
    kTiles<T, 2, true>[row_count - 1](rows, a, b + j, b_stride, c + j, c_stride, static_cast<int>(rest - kLanes),
                                      accumulate);
  }
}

template <class T>
void Gemm(const GemmShape& g, const T* a, const T* b, T* c, bool accumulate) {
  constexpr int64_t kWidth = kTileColumns<T>;
  if (g.m == 0 || g.n == 0) return;
  if (g.k == 0) {
    for (int64_t i = 0; !accumulate && i < g.m; ++i) std::fill_n(c + i * g.c_stride, g.n, T(0));
    return;
  }
  const int64_t zero = 0;
  const T* rows[kTileRows];
  if (g.m <= kDotRows && g.b_column != 1 && g.b_row == 1 && g.a_column == 1 && g.k >= Simd<T>::kLanes) {
    for (int64_t i = 0; i < g.m; ++i) rows[i] = a + i * g.a_row;
    switch (g.m) {
      case 1: return Dots<T, 1>(rows, b, g.b_column, g.k, c, g.c_stride, g.n, accumulate);
      case 2: return Dots<T, 2>(rows, b, g.b_column, g.k, c, g.c_stride, g.n, accumulate);
      case 3: return Dots<T, 3>(rows, b, g.b_column, g.k, c, g.c_stride, g.n, accumulate);
      default: return Dots<T, 4>(rows, b, g.b_column, g.k, c, g.c_stride, g.n, accumulate);
    }
  }
  // Rows of B near each other, or few rows of A: read B where it is.
  const bool direct = g.b_column == 1 && (g.m <= 2 * kTileRows ||
                                          g.b_row * std::min(g.k, kDepth) * static_cast<int64_t>(sizeof(T)) <= 32768);
  if (direct) {
    const int64_t depth = g.m <= kTileRows ? g.k : kDepth;
    for (int64_t k0 = 0; k0 < g.k; k0 += depth) {
      const Segments walk{&zero, 1, std::min(depth, g.k - k0), g.a_column};
      for (int64_t i0 = 0; i0 < g.m; i0 += kTileRows) {
        const int count = static_cast<int>(std::min<int64_t>(kTileRows, g.m - i0));
        for (int r = 0; r < count; ++r) rows[r] = a + (i0 + r) * g.a_row + k0 * g.a_column;
        MultiplyTile<T>(rows, count, walk, b + k0 * g.b_row, g.b_row, c + i0 * g.c_stride, g.c_stride, g.n,
                        accumulate || k0 > 0);
      }
    }
    return;
  }
  alignas(64) T panel[kDepth * kWidth];
  for (int64_t m0 = 0; m0 < g.m; m0 += kRows) {
    const int64_t m1 = std::min(g.m, m0 + kRows);
    for (int64_t k0 = 0; k0 < g.k; k0 += kDepth) {
      const Segments walk{&zero, 1, std::min(kDepth, g.k - k0), g.a_column};
      for (int64_t j0 = 0; j0 < g.n; j0 += kWidth) {
        const int64_t columns = std::min(kWidth, g.n - j0);
        CopyPanel(b + k0 * g.b_row + j0 * g.b_column, g.b_row, g.b_column, walk.length, columns, panel);
        for (int64_t i0 = m0; i0 < m1; i0 += kTileRows) {
          const int count = static_cast<int>(std::min<int64_t>(kTileRows, m1 - i0));
          for (int r = 0; r < count; ++r) rows[r] = a + (i0 + r) * g.a_row + k0 * g.a_column;
          MultiplyTile<T>(rows, count, walk, panel, kWidth, c + i0 * g.c_stride + j0, g.c_stride, columns,
                          accumulate || k0 > 0);
        }
      }
    }
  }
}

template <class T>
void ParallelGemm(sdk::RunContext context, const GemmShape& g, const T* a, const T* b, T* c, bool accumulate) {
  const int64_t row_tiles = (g.m + kTileRows - 1) / kTileRows;
  const int64_t column_tiles = (g.n + kTileColumns<T> - 1) / kTileColumns<T>;
  const double work = GemmCost(static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k));
  // Shares of columns copy each panel of B once in all; shares of rows copy it once a share.
  if (column_tiles >= 8 || column_tiles >= row_tiles) {
    context.ParallelFor(column_tiles, work / static_cast<double>(column_tiles), [&](int64_t begin, int64_t end) {
      const int64_t from = begin * kTileColumns<T>;
      GemmShape share = g;
      share.n = std::min(g.n, end * kTileColumns<T>) - from;
      Gemm(share, a, b + from * g.b_column, c + from, accumulate);
    });
  } else {
    context.ParallelFor(row_tiles, work / static_cast<double>(row_tiles), [&](int64_t begin, int64_t end) {
      const int64_t from = begin * kTileRows;
      GemmShape share = g;
      share.m = std::min(g.m, end * kTileRows) - from;
      Gemm(share, a + from * g.a_row, b, c + from * g.c_stride, accumulate);
    });
  }
}

template void MultiplyTile<float>(const float* const*, int, const Segments&, const float*, int64_t, float*, int64_t,
                                  int64_t, bool);
template void MultiplyTile<double>(const double* const*, int, const Segments&, const double*, int64_t, double*, int64_t,
                                   int64_t, bool);
template void Gemm<float>(const GemmShape&, const float*, const float*, float*, bool);
template void Gemm<double>(const GemmShape&, const double*, const double*, double*, bool);
template void ParallelGemm<float>(sdk::RunContext, const GemmShape&, const float*, const float*, float*, bool);
template void ParallelGemm<double>(sdk::RunContext, const GemmShape&, const double*, const double*, double*, bool);

}  // namespace tenon::cpu
