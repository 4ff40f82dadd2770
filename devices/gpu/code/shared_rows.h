// SPDX-License-Identifier: Apache-2.0
// Rows of floats in shared memory, as the multiply-adds of attention have them, in groups of four floats.
#ifndef TENON_DEVICES_GPU_CODE_SHARED_ROWS_H_
#define TENON_DEVICES_GPU_CODE_SHARED_ROWS_H_

#include "code/grid.h"

namespace tenon::gpu {

template <class T>
struct alignas(sizeof(T) * 4) Four {
  T at[4];
};

enum class RowSwizzle { kByLane, kByHalfWarp, kNone };
// Where group `group` of four floats stands in row `row`.
template <RowSwizzle kSwizzle>
TENON_GPU_FUNCTION int GroupAt(int row, int group) {
  if constexpr (kSwizzle == RowSwizzle::kByLane) return group ^ (row & 7);
  if constexpr (kSwizzle == RowSwizzle::kByHalfWarp) return group ^ ((row >> 1) & 4);
  return group;
}

// Rows [first, first + kRows) of `rows` into shared memory; zeros beyond the last row and the last element.
template <class T, int kRows, int kDepth, int kThreads, RowSwizzle kSwizzle>
TENON_GPU_FUNCTION void LoadRows(const T* from, int64_t step, int64_t first, int64_t rows, int depth, bool even,
                                 Four<float>* to) {
  constexpr int kGroups = kDepth / 4, kRowsAtOnce = kThreads / kGroups;
  const int first_row = static_cast<int>(BlockThread()) / kGroups, group = static_cast<int>(BlockThread()) % kGroups;
  const int64_t left = group * 4 < depth ? rows - first - first_row : 0;  // of the thread's rows, with those between
  const T* at = from + (first + first_row) * step + group * 4;
  TENON_GPU_UNROLL(4)
  for (int n = 0; n < kRows; n += kRowsAtOnce, at += kRowsAtOnce * step) {
    Four<T> four = {};
    if (n < left) {
      if (even) {
        four = *reinterpret_cast<const Four<T>*>(at);
      } else {
        for (int k = 0; k < 4; ++k) four.at[k] = at[k];
      }
    }
    Four<float> wide;
    TENON_GPU_UNROLL_ALL
    for (int k = 0; k < 4; ++k) wide.at[k] = static_cast<float>(static_cast<Wide<T>>(four.at[k]));
    to[(first_row + n) * kGroups + GroupAt<kSwizzle>(first_row + n, group)] = wide;
  }
}

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_SHARED_ROWS_H_
