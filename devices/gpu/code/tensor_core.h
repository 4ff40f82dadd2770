// SPDX-License-Identifier: Apache-2.0
// A warp's product by tensor cores (of compute capability 8.0 and newer), and how operands come there. On the emulated
// grid lanes hand each other what the hardware would, so that it is tested which lane holds what.
//
// A product of 16 x 16 by 16 x 8 adds to sums of 16 x 8. Of lane l, with g = l / 4 and t = l % 4: sums[0, 1] are of row
// g and columns 2t, 2t + 1, sums[2, 3] of row g + 8; left[0] has row g at depth 2t, 2t + 1, left[1] row g + 8, left[2,
// 3] the same at depth + 8; right[0] has column g at depth 2t, 2t + 1, right[1] at depth + 8. Words hold two halves,
// the first one below.
#ifndef TENON_DEVICES_GPU_CODE_TENSOR_CORE_H_
#define TENON_DEVICES_GPU_CODE_TENSOR_CORE_H_

#include <type_traits>

#include "code/grid.h"

namespace tenon::gpu {

struct alignas(16) Chunk {
  uint32_t words[4];
};

template <class H>
TENON_GPU_FUNCTION uint32_t PackHalves(float first, float second) {
  uint32_t both;
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<H, Half>) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  }
#else
  both = static_cast<uint32_t>(H(first).bits) | static_cast<uint32_t>(H(second).bits) << 16;
#endif
  return both;
}

#if defined(__CUDACC__)

template <class H>
TENON_GPU_FUNCTION void AddProduct(float (&sums)[4], const uint32_t (&left)[4], uint32_t right_low,
                                   uint32_t right_high) {
  if constexpr (std::is_same_v<H, Half>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right_low), "r"(right_high));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
        "%2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right_low), "r"(right_high));
  }
}

// Four matrices of 8 rows of 8 halves from shared memory: lane l says where row l % 8 of matrix l / 8 begins. words[m]
// are elements 2t, 2t + 1 of row g of matrix m; turned: of column g, in rows 2t, 2t + 1.
template <bool kTurned>
TENON_GPU_FUNCTION void LoadMatrices(const Chunk* row, uint32_t (&words)[4]) {
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (kTurned) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "r"(at) : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "r"(at) : "memory");
  }
}

// From global into shared memory while the thread goes on; is_there = false: zeros, and nothing is read. What was begun
// so is there behind FinishCopies() of the thread that began it.
TENON_GPU_FUNCTION void BeginCopy(Chunk* to, const void* from, bool is_there) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))),
      "l"(__cvta_generic_to_global(from)), "r"(is_there ? 16 : 0)
      : "memory");
}
TENON_GPU_FUNCTION void FinishCopies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

#else  // the emulated grid

template <class T>
T OfLane(T value, uint32_t lane) {
  ShuffleBytes(&value, sizeof value, lane);
  return value;
}
template <class H>
float HalfOf(const uint32_t* words, int i) {
  H half;
  half.bits = static_cast<uint16_t>(words[i / 2] >> (i % 2 * 16));
  return static_cast<float>(half);
}
template <class H>
void AddProduct(float (&sums)[4], const uint32_t (&left)[4], uint32_t right_low, uint32_t right_high) {
  const uint32_t g = Lane() / 4, t = Lane() % 4;
  uint32_t rows[2][8], columns[2][8];
  for (uint32_t from = 0; from < 4; ++from) {
    for (uint32_t i = 0; i < 4; ++i) rows[i % 2][i / 2 * 4 + from] = OfLane(left[i], g * 4 + from);
    for (uint32_t j = 0; j < 2; ++j) {
      columns[j][from] = OfLane(right_low, (2 * t + j) * 4 + from);
      columns[j][4 + from] = OfLane(right_high, (2 * t + j) * 4 + from);
    }
  }
  for (int s = 0; s < 4; ++s) {
    for (int k = 0; k < 16; ++k) sums[s] += HalfOf<H>(rows[s / 2], k) * HalfOf<H>(columns[s % 2], k);
  }
}
template <bool kTurned>
void LoadMatrices(const Chunk* row, uint32_t (&words)[4]) {
  const uint32_t g = Lane() / 4, t = Lane() % 4;
  for (uint32_t m = 0; m < 4; ++m) {
    const auto half = [&](uint32_t of, uint32_t i) {
      return uint32_t{reinterpret_cast<const uint16_t*>(OfLane(row, m * 8 + of))[i]};
    };
    words[m] = kTurned ? half(2 * t, g) : half(g, 2 * t);
    words[m] |= (kTurned ? half(2 * t + 1, g) : half(g, 2 * t + 1)) << 16;
  }
}
inline void BeginCopy(Chunk* to, const void* from, bool is_there) {
  *to = is_there ? *static_cast<const Chunk*>(from) : Chunk{};
}
inline void FinishCopies() {}

#endif

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_TENSOR_CORE_H_
