// SPDX-License-Identifier: Apache-2.0
// Two strided walks of the same dims: slices, transposes, tiles, pads, reversals.
//
// Add() gives the dims, slowest first, with a stride in elements for source and target (0 and negative are fine). Dims
// of 1 vanish and neighbours that walk on evenly merge. Nothing is allocated, so that it may be built inside run().
#ifndef TENON_SDK_WALK_STRIDED_WALK_H_
#define TENON_SDK_WALK_STRIDED_WALK_H_

#include <array>
#include <cstdint>

#include "tenon/extras/walk/broadcast.h"

namespace tenon::sdk {

// Who copies along it derives from it. RESOURCE_EXHAUSTED when the elements are more than int64 counts, UNIMPLEMENTED
// beyond kMaxDims dims that do not merge.
class StridedWalk {
 public:
  void Add(int64_t dim, int64_t source_stride, int64_t target_stride);
  // Moves where both begin, in elements.
  void Offset(int64_t source, int64_t target) {
    source_offset_ += source;
    target_offset_ += target;
  }
  // Elements that are walked.
  int64_t total() const { return total_; }

 protected:
  int rank_ = 0;
  int64_t total_ = 1;
  int64_t source_offset_ = 0;
  int64_t target_offset_ = 0;
  std::array<int64_t, kMaxDims> dims_ = {};
  std::array<int64_t, kMaxDims> source_strides_ = {};
  std::array<int64_t, kMaxDims> target_strides_ = {};
};

inline void StridedWalk::Add(int64_t dim, int64_t source_stride, int64_t target_stride) {
  total_ = Multiply(total_, dim);
  if (dim == 1) return;
  if (rank_ > 0) {
    const auto last = static_cast<size_t>(rank_ - 1);
    if (source_strides_[last] == source_stride * dim && target_strides_[last] == target_stride * dim) {
      dims_[last] *= dim;
      source_strides_[last] = source_stride;
      target_strides_[last] = target_stride;
      return;
    }
  }
  if (rank_ == kMaxDims) {
    Fail(TENON_UNIMPLEMENTED, "a copy with more than ", kMaxDims, " dims that cannot be merged");
  }
  const auto at = static_cast<size_t>(rank_++);
  dims_[at] = dim;
  source_strides_[at] = source_stride;
  target_strides_[at] = target_stride;
}

// Row-major strides of dims, written to out[rank].
template <size_t kSize>
void FillStrides(Dims dims, std::array<int64_t, kSize>& out) {
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    out[i] = step;
    step *= dims[i];
  }
}

// Ranks that kernels with arrays on the stack take.
inline constexpr size_t kMaxRank = 32;
inline void CheckRank(Dims dims) {
  if (dims.size() > kMaxRank) {
    Fail(TENON_UNIMPLEMENTED, "a tensor of rank ", dims.size(), "; kernels take up to ", kMaxRank);
  }
}

}  // namespace tenon::sdk

#endif  // TENON_SDK_WALK_STRIDED_WALK_H_
