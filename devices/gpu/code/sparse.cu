// SPDX-License-Identifier: Apache-2.0
#include "code/sparse.h"

#include "code/each.h"

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
      const uint64_t above = at <= UINT32_MAX && dim <= UINT32_MAX ? static_cast<uint32_t>(at) / static_cast<uint32_t>(dim) : at / dim;  // 32 bits divide faster
      p.out[i * p.out_rank + d] = static_cast<int64_t>(at - above * dim);
      at = above;
    }
  }
}

TENON_GPU_KERNEL(SparseOrder, SparseOrderParams, CheckOrder)
TENON_GPU_KERNEL(SparseReshape, SparseReshapeParams, ReshapeSparse)

}  // namespace tenon::gpu
