// SPDX-License-Identifier: Apache-2.0
// SparseOrder: that indices are in order and none comes twice. SparseReshape: indices into a tensor as those into another shape.
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

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_SPARSE_H_
