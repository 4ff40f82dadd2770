// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions, where each channel has filters of its own, NHWC: DepthwiseForward_<type>,
// DepthwiseInput_<type> (the gradient of the input) and DepthwiseFilter_<type> (parts of the gradient of the filter,
// which ProductSum adds).
#ifndef TENON_DEVICES_GPU_CODE_DEPTHWISE_H_
#define TENON_DEVICES_GPU_CODE_DEPTHWISE_H_

#include <cstdint>

namespace tenon::gpu {

// Filter k of the result sees channel k / multiplier.
struct DepthwiseParams {
  const void* image;
  const void* filter;  // [window_height, window_width, filters]
  const void* result;
  void* out;
  int64_t batch, height, width, channels;
  int64_t result_height, result_width, filters, multiplier;
  int32_t window_height, window_width, stride, top, left;  // top, left: padding before
  // Of the gradient of the filter: a part is the sums of so many pixels of the result.
  int64_t part_pixels;
};

inline constexpr uint32_t kDepthwiseLanes = 32, kDepthwiseRows = 8;  // filters and pixels of a block at a time

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_DEPTHWISE_H_
