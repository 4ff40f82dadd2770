// SPDX-License-Identifier: Apache-2.0
// Parameters of kernels that the compiler of chains makes (fuse/), and where the elements of their inputs are.
#ifndef TENON_DEVICES_GPU_CODE_FUSED_H_
#define TENON_DEVICES_GPU_CODE_FUSED_H_

#include <cstdint>

namespace tenon::gpu {

inline constexpr int kMostFusedInputs = 16, kMostFusedOutputs = 8, kMostFusedDims = 8;

// `total` elements; of strided inputs: rows of `inner` elements, in `rank` outer dims, slowest first.
struct FusedParams {
  int64_t total, inner;
  int64_t rank;
  int64_t dims[kMostFusedDims];
  const void* inputs[kMostFusedInputs];
  void* outputs[kMostFusedOutputs];
  int64_t steps[kMostFusedInputs];
  int64_t strides[kMostFusedInputs][kMostFusedDims];
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_FUSED_H_
