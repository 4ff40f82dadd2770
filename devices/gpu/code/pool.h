// SPDX-License-Identifier: Apache-2.0
// Pooling: MaxPool, MaxPoolPlaces, MaxPoolGrad, MaxPoolGradGrad, AvgPool and AvgPoolGrad, each with _<type>.
#ifndef TENON_DEVICES_GPU_CODE_POOL_H_
#define TENON_DEVICES_GPU_CODE_POOL_H_

#include <cstdint>

namespace tenon::gpu {

struct PoolDim {
  int32_t input, output, size, stride, before;
};

// Element (plane, y, x, lane) of an image stands at ((plane * height + y) * width + x) * lanes + lane: lanes are the
// channels (NHWC), or planes are (NCHW).
struct PoolParams {
  const void* in;   // the image
  const void* out;  // its result, where it is given
  const void* d;    // the gradient
  void* to;
  int32_t* places;  // of each result the pixel of its plane that was the first maximum; below 0: none
  int64_t count;    // elements of `to`; MaxPoolPlaces: of `out`
  int64_t lanes;
  PoolDim y, x;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_POOL_H_
