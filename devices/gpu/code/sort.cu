// SPDX-License-Identifier: Apache-2.0
#include "code/sort.h"

#include "code/group.h"

namespace tenon::gpu {

// How often a thread has met each digit: 16 bits each, which a tile does not exceed.
struct DigitCounts {
  static constexpr int kOfWord = 4, kWords = kSortDigits / kOfWord;
  uint64_t words[kWords];
  TENON_GPU_FUNCTION void Add(uint32_t digit) {
    for (int w = 0; w < kWords; ++w) {
      if (static_cast<int>(digit) / kOfWord == w) words[w] += uint64_t{1} << (digit % kOfWord * 16);
    }
  }
  TENON_GPU_FUNCTION uint32_t operator[](uint32_t digit) const {
    uint32_t count = 0;
    for (int w = 0; w < kWords; ++w) {
      if (static_cast<int>(digit) / kOfWord == w)
        count = static_cast<uint32_t>(words[w] >> (digit % kOfWord * 16)) & 0xffff;
    }
    return count;
  }
};
TENON_GPU_FUNCTION uint64_t AddCounts(uint64_t a, uint64_t b) { return a + b; }
TENON_GPU_FUNCTION uint32_t DigitOf(uint64_t key, int32_t shift) {
  return static_cast<uint32_t>(key >> shift) & (kSortDigits - 1);
}

TENON_GPU_FUNCTION void CountDigits(const SortParams& p) {
  for (int64_t tile = BlockX(); tile < p.tiles; tile += BlocksX()) {
    DigitCounts counts = {};
    for (int64_t k = 0; k < kSortItems; ++k) {
      const int64_t i = tile * kSortTile + k * kSortThreads + BlockThread();
      if (i < p.count) counts.Add(DigitOf(p.keys[i], p.shift));
    }
    for (int w = 0; w < DigitCounts::kWords; ++w)
      counts.words[w] = BlockReduce(counts.words[w], uint64_t{0}, AddCounts);
    if (BlockThread() < kSortDigits) p.sums[BlockThread() * p.tiles + tile] = counts[BlockThread()];
  }
}

// A thread has neighbours, so that what is equal keeps its order.
TENON_GPU_FUNCTION void PutSorted(const SortParams& p) {
  for (int64_t tile = BlockX(); tile < p.tiles; tile += BlocksX()) {
    const int64_t first = tile * kSortTile + BlockThread() * kSortItems;
    uint64_t keys[kSortItems];
    DigitCounts counts = {};
    for (int k = 0; k < kSortItems; ++k) {
      keys[k] = first + k < p.count ? p.keys[first + k] : 0;
      if (first + k < p.count) counts.Add(DigitOf(keys[k], p.shift));
    }
    for (int w = 0; w < DigitCounts::kWords; ++w) {
      uint64_t before, all;
      BlockScan(counts.words[w], uint64_t{0}, &before, &all, AddCounts);
      counts.words[w] = before;
    }
    for (int k = 0; k < kSortItems && first + k < p.count; ++k) {
      const uint32_t digit = DigitOf(keys[k], p.shift);
      const int64_t to = p.sums[digit * p.tiles + tile] + counts[digit];
      counts.Add(digit);
      p.out_keys[to] = keys[k];
      p.out_places[to] = p.places == nullptr ? static_cast<uint32_t>(first + k) : p.places[first + k];
    }
  }
}

TENON_GPU_FUNCTION void FindBounds(const BoundsParams& p) {
  for (int64_t k = Thread(); k < p.bound_count; k += Threads()) {
    int64_t low = 0, high = p.count;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (p.keys[middle] < static_cast<uint64_t>(k)) low = middle + 1;
      else high = middle;
    }
    p.bounds[k] = low;
  }
}

TENON_GPU_BLOCK_KERNEL(SortCount, SortParams, CountDigits)
TENON_GPU_BLOCK_KERNEL(SortPut, SortParams, PutSorted)
TENON_GPU_KERNEL(SortBounds, BoundsParams, FindBounds)

}  // namespace tenon::gpu
