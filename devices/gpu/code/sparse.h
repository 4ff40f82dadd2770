// SPDX-License-Identifier: Apache-2.0
// SparseOrder: that indices are in order and none comes twice. SparseReshape: indices into a tensor as those into
// another shape. SparseFillEmptyRows in three: FillRowsKeys makes the rows numbers to sort, FillRowsCount finds the
// empty ones, and FillRowsPut_<bytes of a value> writes all.
#ifndef TENON_DEVICES_GPU_CODE_SPARSE_H_
#define TENON_DEVICES_GPU_CODE_SPARSE_H_

#include "code/fault.h"
#include "code/index.h"

namespace tenon::gpu {

inline constexpr int kMostSparseDims = 16;
struct SparseOrderParams {
  IndexTensor indices;  // [count, rank]
  int64_t count;
  int32_t rank;
  FaultSite order, repeated;
};
struct SparseReshapeParams {
  const int64_t* indices;
  int64_t* out;
  int64_t count;
  int32_t rank, out_rank;
  int64_t dims[kMostSparseDims], out_dims[kMostSparseDims];
  FaultSite site;
};

struct FillRowsParams {
  const int64_t* indices;  // [count, rank]
  const void* values;
  const void* default_value;
  int64_t count, rows, rank;
  uint64_t* keys;          // to sort; `rows`, where there is no such row
  const uint64_t* sorted;
  const uint32_t* places;
  const int64_t* bounds;   // [rows + 1]: where each row begins among the sorted ones
  int64_t* starts;         // rows of the output that each has, and then, summed, where it begins there
  bool* is_empty;
  int64_t* out_indices;
  void* out_values;
  int64_t* map;
  FaultSite site;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_SPARSE_H_
