// SPDX-License-Identifier: Apache-2.0
// Batch normalisation: BatchNormMean, BatchNormVariance and BatchNormMoments are reductions (code/reduce.h); BatchNormGiven_f32
// prepares the given statistics; BatchNorm_<type> and BatchNormGrad_<type> go over the elements.
#ifndef TENON_DEVICES_GPU_CODE_BATCH_NORM_H_
#define TENON_DEVICES_GPU_CODE_BATCH_NORM_H_

#include "code/reduce.h"

namespace tenon::gpu {

// Statistics of x by channel. `mean` is what BatchNormMean gives and BatchNormVariance takes.
struct BatchStatisticsParams {
  ReductionShape shape;
  const void* x;
  const float* scale;
  float* mean;
  float* variance;
  const float* given;  // the average before, of the mean or the variance; unused when keep is 0
  float* average;
  float* factors;  // scale / sqrt(variance + epsilon)
  float keep, take;  // average = keep * given + take * now
  float correction;  // of the variance that is averaged
  float epsilon;
};

struct BatchGivenParams {
  const float* mean;
  const float* variance;
  const float* scale;
  float* means[2];
  float* variances[2];
  float* factors;
  int64_t channels;
  float epsilon;
};

// Element i is of the channel i / pixels % channels: y = (x - mean) * factor + offset.
struct BatchNormParams {
  const void* x;
  void* y;
  const float* mean;
  const float* factors;
  const float* offset;
  int64_t total, pixels, channels;
};

// Sums of dy and of dy * (x - mean), and what is made of them.
struct BatchMomentsParams {
  ReductionShape shape;
  const void* dy;
  const void* x;
  const float* scale;
  const float* mean;
  const float* variance;
  float* d_scale;
  float* d_offset;
  float* vectors;  // factors, shifts and slopes, `outputs` of each
  float epsilon;
};

// dx = factor * (dy - shift - (x - mean) * slope); in inference factor * dy.
struct BatchNormGradParams {
  const void* dy;
  const void* x;
  void* dx;
  const float* mean;
  const float* vectors;
  int64_t total, pixels, channels;
  int32_t training;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_BATCH_NORM_H_
