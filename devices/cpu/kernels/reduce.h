// SPDX-License-Identifier: Apache-2.0
// Reductions as a short list of dims, each kept or reduced: adjacent dims of one kind are merged, dims of 1 dropped.
#ifndef TENON_DEVICES_CPU_KERNELS_REDUCE_H_
#define TENON_DEVICES_CPU_KERNELS_REDUCE_H_

#include <array>
#include <cstdint>

#include "kernels/broadcast.h"
#include "kernels/types.h"

namespace tenon::cpu {

// Dims slowest first; they alternate between kept and reduced.
struct ReduceShape {
  int rank = 0;
  std::array<int64_t, kMaxDims> dims = {};
  std::array<bool, kMaxDims> reduced = {};
  int64_t outputs = 1;  // elements of the result
  int64_t inputs = 1;   // elements that each sums

  ReduceShape() = default;
  ReduceShape(sdk::Dims input, const void* axes, uint32_t axes_dtype, int64_t axis_count);
};

}  // namespace tenon::cpu

#endif  // TENON_DEVICES_CPU_KERNELS_REDUCE_H_
