// SPDX-License-Identifier: Apache-2.0
// TopK_<type>: a block for a row at a time.
#ifndef TENON_DEVICES_GPU_CODE_ORDER_H_
#define TENON_DEVICES_GPU_CODE_ORDER_H_

#include <cstdint>

namespace tenon::gpu {

// Elements that a block sorts in its own memory; more are sorted in the workspace.
inline constexpr int64_t kSortedInBlock = 1024;

struct TopKParams {
  const void* x;
  void* values;
  void* places;
  int64_t rows, columns, k;
  int64_t sorted;       // k and what makes it a power of 2
  uint64_t* keys;       // where sorted > kSortedInBlock: `sorted` of each block
  uint32_t* indices;    // likewise
  int32_t place_bytes;  // of an element of places
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_ORDER_H_
