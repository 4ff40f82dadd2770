// SPDX-License-Identifier: Apache-2.0
// Choices between elements: <Kernel>_<bytes of an element>; and Cast_<from>_<to>, Cut_<from>_<to>.
#ifndef TENON_DEVICES_GPU_CODE_SELECT_H_
#define TENON_DEVICES_GPU_CODE_SELECT_H_

#include "code/index.h"

namespace tenon::gpu {

inline constexpr int kMostSelectDims = 8;

// Select: out = condition ? then : otherwise, rows of `inner` with steps of 0 or 1, by `rank` outer dims.
struct SelectParams {
  const void* of[3];  // condition, then, otherwise
  void* out;
  int64_t total;
  Dim inner;
  int64_t steps[3];
  int32_t rank;
  Dim dims[kMostSelectDims];
  int64_t strides[3][kMostSelectDims];
};

// OneHot: [outer, depth, inner] of indices [outer, inner].
struct OneHotParams {
  IndexTensor indices;
  const void* on;
  const void* off;
  void* out;
  int64_t total;
  Dim depth, inner;
};

// Band: what is above or below of a band along the diagonal is zero; negative: all is kept.
struct BandParams {
  const void* x;
  void* out;
  int64_t total;
  Dim rows, columns;
  int64_t lower, upper;
};

struct CastParams {
  const void* x;
  void* out;
  int64_t count;
};

// Several casts between the same types, whose elements are numbered in chunks; a block takes one at a time. None reads
// or writes what another writes.
inline constexpr int64_t kCastChunk = 4096;
inline constexpr uint32_t kCastThreads = 256;
struct CastManyParams {
  struct Item : CastParams {
    int64_t first_chunk;
  };
  static constexpr int kMostItems = (4096 - 16) / static_cast<int>(sizeof(Item));
  int64_t chunks;
  int32_t items;
  Item item[kMostItems];
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_SELECT_H_
