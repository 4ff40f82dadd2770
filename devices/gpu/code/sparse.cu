// SPDX-License-Identifier: Apache-2.0
#include "code/sparse.h"

#include "code/each.h"
#include "code/move.h"

namespace tenon::gpu {

// Below 0, 0 or above: how index i stands to the one before it.
TENON_GPU_FUNCTION int OrderAt(const SparseOrderParams& p, int64_t i) {
  TENON_GPU_ROLLED for (int d = 0; d < p.rank; ++d) {
    const int64_t before = IndexOf(p.indices, (i - 1) * p.rank + d), now = IndexOf(p.indices, i * p.rank + d);
    if (now != before) return now < before ? -1 : 1;
  }
  return 0;
}
TENON_GPU_FUNCTION void CheckOrder(const SparseOrderParams& p) {
  for (int64_t i = 1 + Thread(); i < p.count; i += Threads()) {
    const int order = OrderAt(p, i);
    if (order <= 0) Report(order == 0 ? p.repeated : p.order, i, 0, 0);
  }
}

TENON_GPU_FUNCTION void ReshapeSparse(const SparseReshapeParams& p) {
  for (int64_t i = Thread(); i < p.count; i += Threads()) {
    uint64_t at = 0;
    TENON_GPU_ROLLED for (int d = 0; d < p.rank; ++d) {
      const int64_t index = p.indices[i * p.rank + d];
      const bool is_one = index >= 0 && index < p.dims[d];
      if (!is_one) Report(p.site, i, index, p.dims[d]);
      at = at * static_cast<uint64_t>(p.dims[d]) + static_cast<uint64_t>(is_one ? index : 0);
    }
    TENON_GPU_ROLLED for (int d = p.out_rank - 1; d >= 0; --d) {
      const auto dim = static_cast<uint64_t>(p.out_dims[d] > 0 ? p.out_dims[d] : 1);
      const uint64_t above = at <= UINT32_MAX && dim <= UINT32_MAX
                                 ? static_cast<uint32_t>(at) / static_cast<uint32_t>(dim)
                                 : at / dim;  // 32 bits divide faster
      p.out[i * p.out_rank + d] = static_cast<int64_t>(at - above * dim);
      at = above;
    }
  }
}

// ---- SparseFillEmptyRows ----

TENON_GPU_FUNCTION void MakeRowKeys(const FillRowsParams& p) {
  for (int64_t i = Thread(); i < p.count; i += Threads()) {
    const int64_t row = p.indices[i * p.rank];
    const bool is_one = row >= 0 && row < p.rows;
    if (!is_one) Report(p.site, i, row, p.rows);
    p.keys[i] = static_cast<uint64_t>(is_one ? row : p.rows);
  }
}

TENON_GPU_FUNCTION void CountRows(const FillRowsParams& p) {
  for (int64_t row = Thread(); row < p.rows; row += Threads()) {
    const int64_t own = p.bounds[row + 1] - p.bounds[row];
    p.is_empty[row] = own == 0;
    p.starts[row] = own == 0 ? 1 : own;
  }
}

// First of the empty rows, then of the values in their order.
template <class T>
TENON_GPU_FUNCTION void PutRows(const FillRowsParams& p) {
  for (int64_t row = Thread(); row < p.rows; row += Threads()) {
    if (!p.is_empty[row]) continue;
    const int64_t to = p.starts[row];
    for (int64_t d = 0; d < p.rank; ++d) p.out_indices[to * p.rank + d] = d == 0 ? row : 0;
    static_cast<T*>(p.out_values)[to] = *static_cast<const T*>(p.default_value);
  }
  for (int64_t i = Thread(); i < p.count; i += Threads()) {
    const auto row = static_cast<int64_t>(p.sorted[i]);
    if (row >= p.rows) continue;
    const int64_t from = p.places[i], to = p.starts[row] + (i - p.bounds[row]);
    for (int64_t d = 0; d < p.rank; ++d) p.out_indices[to * p.rank + d] = p.indices[from * p.rank + d];
    static_cast<T*>(p.out_values)[to] = static_cast<const T*>(p.values)[from];
    p.map[from] = to;
  }
}

TENON_GPU_KERNEL(FillRowsKeys, FillRowsParams, MakeRowKeys)
TENON_GPU_KERNEL(FillRowsCount, FillRowsParams, CountRows)
TENON_GPU_KERNEL(FillRowsPut_1, FillRowsParams, PutRows<uint8_t>)
TENON_GPU_KERNEL(FillRowsPut_2, FillRowsParams, PutRows<uint16_t>)
TENON_GPU_KERNEL(FillRowsPut_4, FillRowsParams, PutRows<uint32_t>)
TENON_GPU_KERNEL(FillRowsPut_8, FillRowsParams, PutRows<uint64_t>)
TENON_GPU_KERNEL(FillRowsPut_16, FillRowsParams, PutRows<Aligned16>)
TENON_GPU_KERNEL(SparseOrder, SparseOrderParams, CheckOrder)
TENON_GPU_KERNEL(SparseReshape, SparseReshapeParams, ReshapeSparse)

}  // namespace tenon::gpu
