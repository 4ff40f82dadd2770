// SPDX-License-Identifier: Apache-2.0
// Threads of a block that work on one item together: 1, 2, 4, ... 32 of a warp, or all of them.
#ifndef TENON_DEVICES_GPU_CODE_GROUP_H_
#define TENON_DEVICES_GPU_CODE_GROUP_H_

#include "code/grid.h"

namespace tenon::gpu {

// combine over the `lanes` threads of a group; every thread gets it, in the same order every time.
template <class T, class Combine>
TENON_GPU_FUNCTION T GroupReduce(T value, T identity, uint32_t lanes, const Combine& combine) {
  if (lanes > kWarp) return BlockReduce(value, identity, combine);
  for (uint32_t mask = lanes / 2; mask > 0; mask /= 2) value = combine(value, ShuffleXor(value, mask));
  return value;
}

// What the threads of a block up to this one give, combined in their order; *out_before is of those before this one,
// *out_all of all. Every thread comes here.
template <class T, class Combine>
TENON_GPU_FUNCTION T BlockScan(T value, T identity, T* out_before, T* out_all, const Combine& combine) {
  TENON_GPU_SHARED(T, of_warps, kWarp);
  T upto = value;
  for (uint32_t by = 1; by < kWarp; by *= 2) {
    const T below = ShuffleUp(upto, by);
    if (Lane() >= by) upto = combine(below, upto);
  }
  T before = ShuffleUp(upto, 1);
  if (Lane() == 0) before = identity;
  Barrier();  // of_warps may still be read by a call before
  if (Lane() == kWarp - 1) of_warps[BlockThread() / kWarp] = upto;
  Barrier();
  T below = identity, all = identity;
  for (uint32_t warp = 0; warp < BlockThreads() / kWarp; ++warp) {
    if (warp == BlockThread() / kWarp) below = all;
    all = combine(all, of_warps[warp]);
  }
  *out_before = combine(below, before);
  *out_all = all;
  return combine(below, upto);
}

// function(item, lane, valid) for every item, of each thread of its group. All threads of a block come equally often,
// so that they may meet: those beyond the last item with valid = false.
template <class Function>
TENON_GPU_FUNCTION void ForEachItem(int64_t items, uint32_t lanes, const Function& function) {
  const uint32_t groups = BlockThreads() / lanes, group = BlockThread() / lanes, lane = BlockThread() % lanes;
  for (int64_t first = static_cast<int64_t>(BlockX()) * groups; first < items;
       first += static_cast<int64_t>(BlocksX()) * groups) {
    const int64_t item = first + group;
    function(item, lane, item < items);
  }
}

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_GROUP_H_
