// SPDX-License-Identifier: Apache-2.0
// Parameters of kernels that the compiler of chains makes (fuse/).
#ifndef TENON_DEVICES_GPU_CODE_FUSED_H_
#define TENON_DEVICES_GPU_CODE_FUSED_H_

#include <cstdint>

namespace tenon::gpu {

inline constexpr int kMostFusedInputs = 16, kMostFusedOutputs = 8, kMostFusedDims = 8;

struct FusedParams {
  int64_t total;  // elements of each output
  int64_t even;   // whether packs may begin where inputs and outputs do
  const void* inputs[kMostFusedInputs];
  void* outputs[kMostFusedOutputs];
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_FUSED_H_
