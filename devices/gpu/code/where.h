// SPDX-License-Identifier: Apache-2.0
// Where: CountNonzero_<type> and WriteNonzero_<type>. Integers are taken by their bits: the types are unsigned.
#ifndef TENON_DEVICES_GPU_CODE_WHERE_H_
#define TENON_DEVICES_GPU_CODE_WHERE_H_

#include "code/choose.h"
#include "code/index.h"

namespace tenon::gpu {

inline constexpr int kMostWhereDims = 16;
struct WhereParams {
  const void* x;
  int64_t* out;  // coordinates of what is not zero, row-major
  int64_t count;
  int64_t* sums;
  int64_t found;  // how many were counted; a variable may have changed since
  int32_t rank;
  Dim dims[kMostWhereDims];
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_WHERE_H_
