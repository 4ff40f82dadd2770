// SPDX-License-Identifier: Apache-2.0
// Random numbers: <Distribution>_<type> fills a tensor from a generator, the same numbers as on the CPU.
#ifndef TENON_DEVICES_GPU_CODE_RANDOM_H_
#define TENON_DEVICES_GPU_CODE_RANDOM_H_

#include "tenon/sdk/kernel/random.h"

namespace tenon::gpu {

struct RandomParams {
  sdk::Philox base;  // stands at the first group
  void* out;
  int64_t count;
  int64_t low;     // of integers: the least one,
  uint64_t range;  // and how many there are
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_RANDOM_H_
