// SPDX-License-Identifier: Apache-2.0
// Elements by index: <Kernel>_<bytes of what is moved at once>, and Scatter<Change>_<type>.
#ifndef TENON_DEVICES_GPU_CODE_GATHER_H_
#define TENON_DEVICES_GPU_CODE_GATHER_H_

#include "code/fault.h"
#include "code/index.h"

namespace tenon::gpu {

// Gather: params as [batch, outer, rows, inner], out as [batch, outer, indices, inner]; inner in units.
struct GatherParams {
  const void* params;
  IndexTensor indices;
  void* out;
  int64_t total, rows;
  Dim inner, count, outer;
  FaultSite site;
};

// Slices of a tensor, each named by `depth` indices; slice i begins at its number times the slice's elements.
inline constexpr int kMostIndexDepth = 16;
enum class BadIndices : uint32_t { kReported, kIgnored, kNegativesIgnored };
struct Slices {
  IndexTensor indices;
  int32_t depth;
  BadIndices bad;
  int64_t dims[kMostIndexDepth];
  FaultSite site;
};

// GatherNd: out[i] is the slice that is named i-th; zero where there is none.
struct GatherNdParams {
  Slices slices;
  const void* params;
  void* out;
  int64_t total;
  Dim inner;
};

// ScatterAdd, ...Sub, ...Min, ...Max, ...Mul, ...Div, ...AnyDiv, ...Minimum, ...Maximum: slices of out change by
// `updates`; one_for_all: these are one element. Min and Max leave what is no larger, or smaller; Minimum and Maximum
// keep a NaN. Div refuses 0, AnyDiv of integers alone.
struct ScatterParams {
  Slices slices;
  const void* updates;
  void* out;
  int64_t total;
  Dim inner;
  int32_t one_for_all;
  FaultSite bad_value;
};

// ScatterClaim: of the updates of a slice the last one is to be written. A hash table of slices, by open addressing:
// `keys` (all bits set: free) and 1 + the number of the last update that names the key. slots: where each update's
// slice is; -1: nowhere.
struct ClaimParams {
  Slices slices;
  int64_t count;
  uint64_t mask;  // slots of the table, a power of two, less one
  uint64_t* keys;
  uint64_t* last;
  int64_t* slots;
};
// ScatterPut: writes them. repeated: units of an update that is the same for all; 0: each has its own.
struct PutParams {
  const uint64_t* keys;
  const uint64_t* last;
  const int64_t* slots;
  const void* updates;
  void* out;
  int64_t total, repeated;
  Dim inner;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_GATHER_H_
