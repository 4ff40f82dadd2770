// SPDX-License-Identifier: Apache-2.0
// Pixels that change places or sizes: <Kernel>_<bytes of what is moved at once>, Bilinear_<type> and the gradients.
#ifndef TENON_DEVICES_GPU_CODE_IMAGE_H_
#define TENON_DEVICES_GPU_CODE_IMAGE_H_

#include "code/fault.h"
#include "code/index.h"

namespace tenon::gpu {

// ToBatch: pixel p of an image, counted with what stands before it, is pixel p / block of the image for place p %
// block. FromBatch: back. dims: of what is written, without the batch; sizes: of what is read.
inline constexpr int kMostBlockDims = 8;
struct BlocksParams {
  const void* source;
  void* target;
  int64_t total;
  Dim inner;    // units of a pixel
  Dim spatial;  // pixels of what is written
  Dim images;   // the batch that has the pixels in their places
  int32_t rank;
  Dim dims[kMostBlockDims], blocks[kMostBlockDims];
  int64_t before[kMostBlockDims], sizes[kMostBlockDims];
};

// ReverseSequence: the first lengths[batch] steps come backwards.
struct ReverseParams {
  const void* source;
  void* target;
  IndexTensor lengths;
  int64_t total;
  Dim step_stride, steps, batch_stride, batches;  // strides in units
  FaultSite site;
};

// Pixels of `original` images, and of images that are made of them.
struct ResizeParams {
  const void* x;
  void* out;
  int64_t total;
  Dim inner;          // channels, or units of a pixel
  Dim width, height;  // of what is written
  int64_t original_height, original_width, resized_height, resized_width;
  float row_scale, column_scale;  // original pixels a resized one
  int32_t half_pixel_centers, align_corners;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_IMAGE_H_
