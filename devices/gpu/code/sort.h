// SPDX-License-Identifier: Apache-2.0
// A stable radix sort of numbers, each with its place: digits of 4 bits, from the lowest on. For a digit SortCount
// counts how often each of its values stands in each tile, ScanTiles (choose.h) sums these, and SortPut puts the
// numbers where they come then.
#ifndef TENON_DEVICES_GPU_CODE_SORT_H_
#define TENON_DEVICES_GPU_CODE_SORT_H_

#include <cstdint>

namespace tenon::gpu {

inline constexpr int kSortBits = 4, kSortDigits = 1 << kSortBits;
inline constexpr int64_t kSortThreads = 256, kSortItems = 8, kSortTile = kSortThreads * kSortItems;

struct SortParams {
  const uint64_t* keys;
  const uint32_t* places;  // NULL: 0, 1, 2, ...
  uint64_t* out_keys;
  uint32_t* out_places;
  int64_t count, tiles;
  int64_t* sums;  // [digit, tile]
  int32_t shift;
};

// SortBounds: bounds[k] is where the first key of at least k stands, of sorted keys.
struct BoundsParams {
  const uint64_t* keys;
  int64_t count;
  int64_t* bounds;
  int64_t bound_count;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_SORT_H_
