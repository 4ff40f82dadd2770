// SPDX-License-Identifier: Apache-2.0
// Indices: what they are divided by, a product and a shift where 32 bits suffice, and tensors of them.
#ifndef TENON_DEVICES_GPU_CODE_INDEX_H_
#define TENON_DEVICES_GPU_CODE_INDEX_H_

#include <cstdint>

// Before a loop over dims: code that is small is worth more than one that is unrolled.
#if defined(__CUDACC__) || defined(__HIPCC__)
#define TENON_GPU_ROLLED _Pragma("unroll 1")
#else
#define TENON_GPU_ROLLED _Pragma("GCC unroll 1")
#endif

namespace tenon::gpu {

// The size of a dim. Indices below 2^31 are divided by it with multiplier and shift (Granlund and Montgomery's method).
struct Dim {
  int64_t size;
  uint32_t multiplier, shift;
};

constexpr Dim DimOf(int64_t size) {
  Dim dim = {size, 0, 0};
  if (size < 1 || size > INT32_MAX) return dim;  // only 64-bit indices meet it, which divide by `size`
  while ((INT64_C(1) << dim.shift) < size) ++dim.shift;
  const auto divisor = static_cast<uint64_t>(size);
  dim.multiplier = static_cast<uint32_t>((((UINT64_C(1) << dim.shift) - divisor) << 32) / divisor + 1);
  return dim;
}

constexpr uint32_t Quotient(uint32_t index, const Dim& by) {
  const auto high = static_cast<uint32_t>(static_cast<uint64_t>(index) * by.multiplier >> 32);
  return (high + index) >> by.shift;
}
constexpr uint64_t Quotient(uint64_t index, const Dim& by) { return index / static_cast<uint64_t>(by.size); }

// The index within the dim; *index becomes that of the dims before it.
template <class Index>
constexpr int64_t TakeDim(Index* index, const Dim& dim) {
  const Index above = Quotient(*index, dim);
  const Index at = *index - above * static_cast<Index>(dim.size);
  *index = above;
  return static_cast<int64_t>(at);
}

// What a thread of a kernel that moves has under way at once (each.h).
inline constexpr int kMoveItems = 4;

// ---- Indices of any integer type ----

enum class IndexKind : uint32_t { kInt32, kInt64, kInt16, kUint16, kInt8, kUint8 };
struct IndexTensor {
  const void* at;
  IndexKind kind;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_INDEX_H_
