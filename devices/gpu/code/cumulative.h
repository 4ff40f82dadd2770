// SPDX-License-Identifier: Apache-2.0
// Cumsum and Cumprod: lines of `n` elements, `inner` apart. <Op>Columns_<type> is a thread for a share of a line,
// <Op>Rows_<type> a block. Where lines are cut into shares, <Op>ColumnTotals or <Op>RowTotals come before, and
// <Op>Carry between them.
#ifndef TENON_DEVICES_GPU_CODE_CUMULATIVE_H_
#define TENON_DEVICES_GPU_CODE_CUMULATIVE_H_

#include <cstdint>

namespace tenon::gpu {

struct CumulativeParams {
  const void* x;
  void* out;
  void* totals;  // [splits][lines] of what a share adds, then of what is before it; 8 bytes each
  int64_t lines, n, inner;
  int64_t splits, per_split;
  int32_t exclusive, reverse;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_CUMULATIVE_H_
