// SPDX-License-Identifier: Apache-2.0
// The host's half of a stable sort (code/sort.h).
//
//   Sorting sorting(count, limit, s);       // in Plan: so many numbers, none above the limit
//   ... work that writes sorting.input(memory) ...
//   sorting.Launch(on, memory);             // then keys(memory) are sorted, and places(memory) say where each stood
#ifndef TENON_DEVICES_GPU_KERNELS_SORT_H_
#define TENON_DEVICES_GPU_KERNELS_SORT_H_

#include <algorithm>
#include <bit>
#include <limits>

#include "code/sort.h"
#include "kernels/choose.h"

namespace tenon::gpu {

class Sorting {
 public:
  Sorting() = default;
  Sorting(int64_t count, uint64_t limit, Shapes& s)
      : count_(count),
        tiles_((count + kSortTile - 1) / kSortTile),
        passes_(PassesFor(limit)),
        blocks_(static_cast<uint32_t>(std::clamp<int64_t>(tiles_, 1, int64_t{s.facts().processors} * 16))) {
    if (count > std::numeric_limits<int32_t>::max())
      sdk::Fail(TENON_UNIMPLEMENTED, "GPUs sort at most 2^31 - 1 numbers; these are ", count);
    for (int k = 0; k < 2; ++k) {
      keys_[k] = s.Workspace(sdk::Multiply(count, 8));
      places_[k] = s.Workspace(sdk::Multiply(count, 4));
    }
    sums_ = s.Workspace(sdk::Multiply(tiles_ * kSortDigits + 1, 8));
    count_code_ = s.Code("SortCount");
    scan_code_ = s.Code("ScanTiles");
    put_code_ = s.Code("SortPut");
    bounds_code_ = s.Code("SortBounds");
  }

  // A lower limit than was planned for.
  void SetLimit(uint64_t limit) { passes_ = PassesFor(limit); }
  uint64_t* input(char* memory) const { return Keys(memory, 0); }
  const uint64_t* keys(char* memory) const { return Keys(memory, passes_ % 2); }
  const uint32_t* places(char* memory) const { return Places(memory, passes_ % 2); }

  void Launch(Launcher& on, char* memory) const {
    if (count_ == 0) return;
    const Grid grid = {{blocks_, 1, 1}, static_cast<uint32_t>(kSortThreads)};
    auto* const sums = reinterpret_cast<int64_t*>(memory + sums_);
    for (int pass = 0; pass < passes_; ++pass) {
      const int from = pass % 2, to = 1 - from;
      const SortParams p = {Keys(memory, from),
                            pass == 0 ? nullptr : Places(memory, from),
                            Keys(memory, to),
                            Places(memory, to),
                            count_,
                            tiles_,
                            sums,
                            pass * kSortBits};
      on(count_code_, grid, p);
      ScanSums(on, scan_code_, sums, tiles_ * kSortDigits);
      on(put_code_, grid, p);
    }
  }
  // Where the first key of at least k stands, for every k below bound_count.
  void FindBounds(Launcher& on, char* memory, int64_t* bounds, int64_t bound_count) const {
    on(bounds_code_, Flat(bound_count), BoundsParams{keys(memory), count_, bounds, bound_count});
  }

 private:
  static int PassesFor(uint64_t limit) {
    return std::max(1, (static_cast<int>(std::bit_width(limit)) + kSortBits - 1) / kSortBits);
  }
  uint64_t* Keys(char* memory, int k) const { return reinterpret_cast<uint64_t*>(memory + keys_[k]); }
  uint32_t* Places(char* memory, int k) const { return reinterpret_cast<uint32_t*>(memory + places_[k]); }

  int64_t count_ = 0, tiles_ = 0, keys_[2] = {}, places_[2] = {}, sums_ = 0;
  int passes_ = 1;
  uint32_t blocks_ = 1;
  Function count_code_ = nullptr, scan_code_ = nullptr, put_code_ = nullptr, bounds_code_ = nullptr;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_KERNELS_SORT_H_
