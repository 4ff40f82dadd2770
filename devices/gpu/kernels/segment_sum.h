// SPDX-License-Identifier: Apache-2.0
// The host's half of sums by segment (code/segment.h): the levels and their memory.
#ifndef TENON_DEVICES_GPU_KERNELS_SEGMENT_SUM_H_
#define TENON_DEVICES_GPU_KERNELS_SEGMENT_SUM_H_

#include <vector>

#include "code/segment.h"
#include "kernels/kernel.h"

namespace tenon::gpu {

// Bytes of what elements of a dtype are summed as.
inline int64_t SumBytes(uint32_t dtype) { return std::max<int64_t>(4, static_cast<int64_t>(sdk::ElementSize(dtype))); }

class SegmentSumming {
 public:
  SegmentSumming() = default;
  // Of `count` rows of `width` elements.
  SegmentSumming(int64_t count, int64_t width, uint32_t dtype, Shapes& s)
      : width_(width),
        element_(static_cast<int64_t>(sdk::ElementSize(dtype))),
        first_(s.Code("SegmentSum", dtype)),
        next_(s.Code("SegmentSumNext", dtype)) {
    for (int64_t chunk = kFirstChunk; count > 0; chunk = kNextChunk) {
      Level level = {count, chunk, (count + chunk - 1) / chunk};
      if (level.chunks > 1) {
        const int64_t rows = 2 * level.chunks;
        level.sums = s.Workspace(sdk::Multiply(sdk::Multiply(rows, width), SumBytes(dtype)));
        level.ids = s.Workspace(8 * rows);
        level.counts = s.Workspace(8 * rows);
      }
      levels_.push_back(level);
      if (level.chunks == 1) break;
      count = 2 * level.chunks;
    }
  }

  // p: x, rows, ids, scales, out, out_rows, over and what they are checked with. What no id names becomes zero.
  void Launch(Launcher& on, char* memory, SegmentSumParams p) const {
    on.Fill(p.out, 0, p.out_rows * width_ * element_);
    if (width_ == 0 || p.out_rows == 0) return;
    p.width = DimOf(width_);
    for (size_t i = 0; i < levels_.size(); ++i) {
      const Level& level = levels_[i];
      p.count = level.count;
      p.chunk = level.chunk;
      p.chunks = level.chunks;
      p.total = level.chunks * width_;
      p.partial = memory + level.sums;
      p.partial_ids = reinterpret_cast<int64_t*>(memory + level.ids);
      p.partial_counts = reinterpret_cast<int64_t*>(memory + level.counts);
      on(i == 0 ? first_ : next_, Flat(p.total), p);
      p.x = p.partial;
      p.rows = {};
      p.scales = nullptr;
      p.ids = {p.partial_ids, IndexKind::kInt64};
      p.counts = p.partial_counts;
    }
  }

 private:
  static constexpr int64_t kFirstChunk = 32, kNextChunk = 64;
  struct Level {
    int64_t count, chunk, chunks;
    int64_t sums = 0, ids = 0, counts = 0;  // in the workspace
  };
  int64_t width_ = 0, element_ = 1;
  std::vector<Level> levels_;
  Function first_ = nullptr, next_ = nullptr;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_KERNELS_SEGMENT_SUM_H_
