// SPDX-License-Identifier: Apache-2.0
// Unique and UniqueWithCounts, by a hash table with open addressing: UniqueClaim_<type> finds a slot for each value and
// where it comes first; UniqueCount counts those places; UniqueNumber_<type> numbers them in their order; UniquePut
// writes each element's number. Integers are taken by their bits: the types are unsigned.
#ifndef TENON_DEVICES_GPU_CODE_UNIQUE_H_
#define TENON_DEVICES_GPU_CODE_UNIQUE_H_

#include "code/choose.h"
#include "code/index.h"

namespace tenon::gpu {

struct UniqueParams {
  const void* x;
  int64_t count;  // at most INT32_MAX
  uint32_t mask;  // slots of the table, a power of two, less one
  uint32_t* taken;  // 1 + an element of the slot's value, 0: free; the value's number in the end
  uint32_t* first;  // where the slot's value comes first
  uint32_t* slots;  // of each element; kNoSlot: it equals nothing, itself included
  int64_t* sums;
  void* values;
  void* numbers;
  void* counts;  // NULL: nobody asks
  int32_t index_bytes;  // of numbers and counts
};
inline constexpr uint32_t kNoSlot = UINT32_MAX;

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_UNIQUE_H_
