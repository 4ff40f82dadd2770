// SPDX-License-Identifier: Apache-2.0
// Bincount_<type> and, for few bins of one row, BincountShared_<type>, whose blocks count in their own memory first.
#ifndef TENON_DEVICES_GPU_CODE_BINCOUNT_H_
#define TENON_DEVICES_GPU_CODE_BINCOUNT_H_

#include "code/fault.h"
#include "code/index.h"

namespace tenon::gpu {

inline constexpr int64_t kSharedBins = 1024;
struct BincountParams {
  IndexTensor values;
  const void* weights;  // NULL: each counts one
  void* out;            // [rows, bins], zero before
  int64_t count, bins;
  Dim columns;          // values of a row
  int32_t binary;       // whether there is any
  FaultSite site;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_BINCOUNT_H_
