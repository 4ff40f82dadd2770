// SPDX-License-Identifier: Apache-2.0
#include "code/partition.h"

#include "code/each.h"
#include "code/move.h"

namespace tenon::gpu {

TENON_GPU_FUNCTION void MakePartitionKeys(const PartitionParams& p) {
  for (int64_t i = Thread(); i < p.count; i += Threads()) {
    const int64_t part = p.partitions[i];
    const bool is_one = part >= 0 && part < p.parts;
    if (!is_one) Report(p.site, i, part, p.parts);
    p.keys[i] = static_cast<uint64_t>(is_one ? part : p.parts);
  }
}

// ---- Stitches ----

// What is higher already is not written again.
template <class Word>
TENON_GPU_FUNCTION void Raise(Word* at, Word value) {
  for (Word old = Observe(at); value > old;) {
    const Word seen = CompareAndSwap(at, old, value);
    if (seen == old) return;
    old = seen;
  }
}

TENON_GPU_FUNCTION void FindStitchRows(const StitchParams& p) {
  uint64_t rows = 0;
  for (int64_t i = Thread(); i < p.count; i += Threads()) {
    const int64_t row = p.indices[i];
    if (row < 0) Report(p.site, i, row, 0);
    else if (static_cast<uint64_t>(row) >= rows) rows = static_cast<uint64_t>(row) + 1;
  }
  rows = BlockReduce(rows, uint64_t{0}, [](uint64_t a, uint64_t b) { return a > b ? a : b; });
  if (BlockThread() == 0) Raise(p.rows, rows);
}

TENON_GPU_FUNCTION void ClaimStitch(const StitchParams& p) {
  for (int64_t i = Thread(); i < p.count; i += Threads()) {
    const int64_t row = p.indices[i];
    if (row >= 0 && row < p.owner_count) Raise(&p.owners[row], p.first + static_cast<uint32_t>(i));
  }
}

template <class T>
TENON_GPU_FUNCTION void PutStitch(const StitchPutParams& p) {
  ForEachIndex(p.total, [&]<class Index>(Index i) {
    const auto from = static_cast<int64_t>(i);
    const int64_t column = TakeDim(&i, p.inner), row = p.indices[i];
    if (row < 0 || row >= p.owner_count || p.owners[row] != p.first + static_cast<uint32_t>(i)) return;
    static_cast<T*>(p.out)[row * p.inner.size + column] = static_cast<const T*>(p.data)[from];
  });
}

// ---- Permutations ----

TENON_GPU_FUNCTION void Invert(const InvertParams& p) {
  constexpr uint64_t kNone = ~UINT64_C(0);
  for (int64_t i = Thread(); i < p.count; i += Threads()) {
    const int64_t at = p.x[i];
    if (at < 0 || at >= p.count) Report(p.outside, i, at, p.count);
    else if (CompareAndSwap(p.out + at, kNone, static_cast<uint64_t>(i)) != kNone) Report(p.repeated, i, at, p.count);
  }
}

TENON_GPU_KERNEL(PartitionKeys, PartitionParams, MakePartitionKeys)
TENON_GPU_BLOCK_KERNEL(StitchRows, StitchParams, FindStitchRows)
TENON_GPU_KERNEL(StitchClaim, StitchParams, ClaimStitch)
TENON_GPU_KERNEL(StitchPut_1, StitchPutParams, PutStitch<uint8_t>)
TENON_GPU_KERNEL(StitchPut_2, StitchPutParams, PutStitch<uint16_t>)
TENON_GPU_KERNEL(StitchPut_4, StitchPutParams, PutStitch<uint32_t>)
TENON_GPU_KERNEL(StitchPut_8, StitchPutParams, PutStitch<uint64_t>)
TENON_GPU_KERNEL(StitchPut_16, StitchPutParams, PutStitch<Aligned16>)
TENON_GPU_KERNEL(InvertPermutation, InvertParams, Invert)

}  // namespace tenon::gpu
