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

// function(item, lane, valid) for every item, of each thread of its group. All threads of a block come equally often, so that
// they may meet: those beyond the last item with valid = false.
template <class Function>
TENON_GPU_FUNCTION void ForEachItem(int64_t items, uint32_t lanes, const Function& function) {
  const uint32_t groups = BlockThreads() / lanes, group = BlockThread() / lanes, lane = BlockThread() % lanes;
  for (int64_t first = static_cast<int64_t>(BlockX()) * groups; first < items; first += static_cast<int64_t>(BlocksX()) * groups) {
    const int64_t item = first + group;
    function(item, lane, item < items);
  }
}

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_GROUP_H_
