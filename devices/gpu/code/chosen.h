// SPDX-License-Identifier: Apache-2.0
// The device code of choosing (choose.h): sums has a count for each tile.
#ifndef TENON_DEVICES_GPU_CODE_CHOSEN_H_
#define TENON_DEVICES_GPU_CODE_CHOSEN_H_

#include "code/choose.h"
#include "code/group.h"

namespace tenon::gpu {

template <class T>
TENON_GPU_FUNCTION T Added(T a, T b) { return a + b; }

// The first pass. Neighbours are threads next to each other.
template <class IsChosen>
TENON_GPU_FUNCTION void CountChosen(int64_t count, int64_t* sums, const IsChosen& is_chosen) {
  for (int64_t tile = BlockX(); tile * kChooseTile < count; tile += BlocksX()) {
    uint32_t own = 0;
    for (int64_t k = 0; k < kChooseItems; ++k) {
      const int64_t i = tile * kChooseTile + k * kChooseThreads + BlockThread();
      if (i < count && is_chosen(i)) ++own;
    }
    own = BlockReduce(own, uint32_t{0}, Added<uint32_t>);
    if (BlockThread() == 0) sums[tile] = own;
  }
}

// The last pass: visit(i, whether it is chosen, how many are before it). A thread has neighbours.
template <class IsChosen, class Visit>
TENON_GPU_FUNCTION void ForEachRanked(int64_t count, const int64_t* sums, const IsChosen& is_chosen,
                                      const Visit& visit) {
  for (int64_t tile = BlockX(); tile * kChooseTile < count; tile += BlocksX()) {
    const int64_t first = tile * kChooseTile + BlockThread() * kChooseItems;
    uint32_t chosen = 0;
    for (int k = 0; k < kChooseItems; ++k) {
      if (first + k < count && is_chosen(first + k)) chosen |= 1u << k;
    }
    uint32_t before, all;
    BlockScan(static_cast<uint32_t>(__builtin_popcount(chosen)), uint32_t{0}, &before, &all, Added<uint32_t>);
    int64_t rank = sums[tile] + before;
    for (int k = 0; k < kChooseItems && first + k < count; ++k) {
      const bool is_one = (chosen >> k & 1) != 0;
      visit(first + k, is_one, rank);
      rank += is_one ? 1 : 0;
    }
  }
}

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_CHOSEN_H_
