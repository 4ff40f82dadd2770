// SPDX-License-Identifier: Apache-2.0
// Reductions: their shape and parameters. A reduction <Name> is up to three kernels: <Name>Rows_<type> where the
// innermost dim is reduced, <Name>Columns_<type> where it is kept, and <Name>Last_<type> for what the blocks of one
// result have left.
#ifndef TENON_DEVICES_GPU_CODE_REDUCE_H_
#define TENON_DEVICES_GPU_CODE_REDUCE_H_

#include <cstdint>

#include "code/fault.h"

namespace tenon::gpu {

// Dims of a strided walk, slowest first.
inline constexpr int kMostWalkDims = 16;
struct WalkShape {
  int32_t rank;
  int64_t dims[kMostWalkDims];
  int64_t strides[kMostWalkDims];
};

struct ReductionShape {
  WalkShape kept, reduced;
  int64_t outputs;    // elements of the result
  int64_t inputs;     // elements that each is of, in this launch
  int64_t inputs_of_result;  // elements that each is of
  int64_t splits;     // shares of the inputs of one result, which are combined by the last kernel
  int64_t per_split;  // inputs of a share
  uint32_t lanes;  // Rows: threads for one share of one result. Columns: results side by side in a block. A power of 2
  void* partial;      // [splits][outputs], where there are several shares; 16 bytes each
};
inline constexpr int64_t kPartialBytes = 16;

struct ReduceParams {
  ReductionShape shape;
  const void* x;
  void* out;
  int64_t divisor;
  int32_t divide;  // the sum by the divisor
};

struct ArgParams {
  ReductionShape shape;
  const void* x;
  void* out;
  int32_t place_bytes;  // of an element of out
};

// Reports NaN, infinities, or both.
struct CheckParams {
  ReductionShape shape;
  const void* x;
  FaultSite nan, infinite, both;
};

inline constexpr int kMostSummands = 32;  // of one launch
struct AddNParams {
  const void* x[kMostSummands];
  void* out;
  int64_t count;
  int32_t inputs;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_REDUCE_H_
