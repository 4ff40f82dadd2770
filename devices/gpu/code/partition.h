// SPDX-License-Identifier: Apache-2.0
// DynamicPartition, DynamicStitch and InvertPermutation.
#ifndef TENON_DEVICES_GPU_CODE_PARTITION_H_
#define TENON_DEVICES_GPU_CODE_PARTITION_H_

#include "code/fault.h"
#include "code/index.h"

namespace tenon::gpu {

// PartitionKeys: the parts as numbers to sort; of what is none, `parts`.
struct PartitionParams {
  const int32_t* partitions;
  uint64_t* keys;
  int64_t count, parts;
  FaultSite site;
};

// Of one tensor of indices. StitchRows: *rows becomes the largest index and one. StitchClaim: owners[index] becomes the
// last of those who claim it, whose numbers count from `first`.
struct StitchParams {
  const int32_t* indices;
  int64_t count;
  uint64_t* rows;
  uint32_t* owners;
  int64_t owner_count;
  uint32_t first;  // at least 1: 0 is nobody
  FaultSite site;
};
// StitchPut_<bytes of a unit>: rows of `inner` units go where they own the place.
struct StitchPutParams {
  const int32_t* indices;
  const uint32_t* owners;
  const void* data;
  void* out;
  int64_t total, owner_count;
  Dim inner;
  uint32_t first;
};

// InvertPermutation: out is filled with -1 before.
struct InvertParams {
  const int64_t* x;
  uint64_t* out;
  int64_t count;
  FaultSite outside, repeated;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_PARTITION_H_
