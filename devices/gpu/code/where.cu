// SPDX-License-Identifier: Apache-2.0
#include "code/where.h"

#include "code/chosen.h"

namespace tenon::gpu {

TENON_GPU_FUNCTION void ScanSums(const ScanParams& p) {
  constexpr int64_t kItems = 4;
  int64_t carried = 0;
  for (int64_t first = 0; first < p.count; first += kItems * kScanThreads) {
    const int64_t own = first + BlockThread() * kItems;
    int64_t values[kItems], sum = 0, before, all;
    for (int k = 0; k < kItems; ++k) {
      values[k] = own + k < p.count ? p.sums[own + k] : 0;
      sum += values[k];
    }
    BlockScan(sum, int64_t{0}, &before, &all, Added<int64_t>);
    before += carried;
    for (int k = 0; k < kItems && own + k < p.count; ++k) {
      p.sums[own + k] = before;
      before += values[k];
    }
    carried += all;
  }
  if (BlockThread() == 0) p.sums[p.count] = carried;
}
TENON_GPU_BLOCK_KERNEL_OF(kScanThreads, ScanTiles, ScanParams, ScanSums)

template <class T>
TENON_GPU_FUNCTION bool IsNonzero(const WhereParams& p, int64_t i) {
  return static_cast<Wide<T>>(static_cast<const T*>(p.x)[i]) != Wide<T>(0);
}
template <class T>
TENON_GPU_FUNCTION void CountNonzero(const WhereParams& p) {
  CountChosen(p.count, p.sums, [&](int64_t i) { return IsNonzero<T>(p, i); });
}
template <class Index>
TENON_GPU_FUNCTION void WriteCoordinates(const WhereParams& p, Index i, int64_t* out) {
  TENON_GPU_ROLLED for (int d = p.rank - 1; d > 0; --d) out[d] = TakeDim(&i, p.dims[d]);
  if (p.rank > 0) out[0] = static_cast<int64_t>(i);
}
template <class T>
TENON_GPU_FUNCTION void WriteNonzero(const WhereParams& p) {
  ForEachRanked(
      p.count, p.sums, [&](int64_t i) { return IsNonzero<T>(p, i); },
      [&](int64_t i, bool is_chosen, int64_t rank) {
        if (!is_chosen || rank >= p.found) return;
        int64_t* const out = p.out + rank * p.rank;
        if (p.count <= INT32_MAX) WriteCoordinates(p, static_cast<uint32_t>(i), out);
        else WriteCoordinates(p, static_cast<uint64_t>(i), out);
      });
}

#define TENON_GPU_WHERE(suffix, T)                                           \
  TENON_GPU_BLOCK_KERNEL(CountNonzero_##suffix, WhereParams, CountNonzero<T>) \
  TENON_GPU_BLOCK_KERNEL(WriteNonzero_##suffix, WhereParams, WriteNonzero<T>)
TENON_GPU_WHERE(u8, uint8_t)
TENON_GPU_WHERE(u16, uint16_t)
TENON_GPU_WHERE(u32, uint32_t)
TENON_GPU_WHERE(u64, uint64_t)
TENON_GPU_WHERE(f32, float)
TENON_GPU_WHERE(f64, double)
TENON_GPU_WHERE(f16, Half)
TENON_GPU_WHERE(bf16, Bfloat16)

}  // namespace tenon::gpu
