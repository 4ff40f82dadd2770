// SPDX-License-Identifier: Apache-2.0
// Softmax_<type>, LogSoftmax_<type>, CrossEntropy_<type>, SparseCrossEntropy_<type> and InTopK: their parameters.
// `lanes` threads work on a row.
#ifndef TENON_DEVICES_GPU_CODE_SOFTMAX_H_
#define TENON_DEVICES_GPU_CODE_SOFTMAX_H_

#include <cstdint>

#include "code/fault.h"

namespace tenon::gpu {

struct SoftmaxParams {
  const void* x;
  void* out;
  int64_t rows, width;
  uint32_t lanes;
};

// Element j of row r of the logits is x[r * x_row + j * x_step], of the labels likewise.
struct CrossEntropyParams {
  const void* x;
  const void* labels;
  void* loss;
  void* backprop;
  int64_t rows, width;
  int64_t x_row, x_step, y_row, y_step;
  uint32_t lanes;
};

struct SparseCrossEntropyParams {
  const void* x;
  const void* labels;
  void* loss;
  void* backprop;
  int64_t rows, width;
  uint32_t lanes;
  int32_t wide_labels;  // of 64 bits
  FaultSite site;
};

struct InTopKParams {
  const float* predictions;
  const void* targets;
  const void* k;
  bool* out;
  int64_t rows, width;
  uint32_t lanes;
  int32_t wide;  // targets and k of 64 bits
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_SOFTMAX_H_
