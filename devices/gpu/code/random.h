// SPDX-License-Identifier: Apache-2.0
// Random numbers: <Distribution>_<type> fills a tensor from a generator, the same numbers as on the CPU; TakeOfStream
// moves a stream on.
#ifndef TENON_DEVICES_GPU_CODE_RANDOM_H_
#define TENON_DEVICES_GPU_CODE_RANDOM_H_

#include "tenon/extras/kernel/random.h"

namespace tenon::gpu {

// Takes so many blocks of a stream for whoever reads `taken`: steps that run at once take others.
struct TakeParams {
  uint64_t* position;
  uint64_t* taken;  // where the position was
  uint64_t blocks;
};

struct RandomParams {
  sdk::Philox base;           // stands at the first group, or
  const uint64_t* blocks_on;  // so many blocks before it; NULL: 0
  void* out;
  int64_t count;
  int64_t low;     // of integers: the least one,
  uint64_t range;  // and how many there are
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_RANDOM_H_
