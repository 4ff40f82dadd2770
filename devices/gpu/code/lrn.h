// SPDX-License-Identifier: Apache-2.0
// Local response normalisation: LRN, LRNSlopes and LRNGrad, each with _<type>.
#ifndef TENON_DEVICES_GPU_CODE_LRN_H_
#define TENON_DEVICES_GPU_CODE_LRN_H_

#include <cstdint>

namespace tenon::gpu {

struct LrnParams {
  const void* x;
  const void* y;   // of the gradient: the result
  const void* dy;
  void* to;
  float* slopes;  // an element each
  int64_t total, channels, radius;
  float bias, alpha, beta;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_LRN_H_
