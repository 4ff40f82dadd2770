// SPDX-License-Identifier: Apache-2.0
// Batch normalisation: BatchNormStatistics, BatchNormVariance and BatchNormMoments are reductions (code/reduce.h);
// BatchNormGiven_f32 prepares the given statistics; BatchNorm_<type>, BatchNormRows_<type> and BatchNormGrad_<type> go
// over the elements.
#ifndef TENON_DEVICES_GPU_CODE_BATCH_NORM_H_
#define TENON_DEVICES_GPU_CODE_BATCH_NORM_H_

#include "code/reduce.h"

namespace tenon::gpu {

// Statistics of x by channel: what BatchNormStatistics gives, but for variances that it leaves to BatchNormVariance.
struct BatchStatisticsParams {
  ReductionShape shape;
  const void* x;
  const float* scale;
  float* mean;
  float* variance;
  const float* given[2];  // the averages before, of mean and variance; unused when keep is 0
  float* average[2];
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

// Element i is of the channel i / pixels % channels: y = (x - mean) * factor + offset, to which something may be added,
// and what is then negative be 0.
struct BatchNormParams {
  const void* x;
  const void* added;  // may be NULL
  void* y;
  const float* mean;
  const float* factors;
  const float* offset;
  int64_t total, pixels, channels;
  int32_t rectifies;
};

// Of one image with channels first, where a channel is a row of `pixels` elements (so Keras writes a normalisation of
// layers): its statistics and what is normalised by them, by `lanes` threads. statistics.shape and factors are not
// used.
struct BatchNormRowsParams {
  BatchStatisticsParams statistics;
  void* y;
  const float* offset;
  int64_t channels, pixels;
  uint32_t lanes;
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
