// SPDX-License-Identifier: Apache-2.0
// One register full of elements, where a kernel says itself what stays in registers. Elsewhere the compiler makes the vectors.
#ifndef TENON_DEVICES_CPU_KERNELS_VECTOR_H_
#define TENON_DEVICES_CPU_KERNELS_VECTOR_H_

#include <cstdint>
#include <cstring>

namespace tenon::cpu {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif

template <class T, int kCount = kVectorBytes / static_cast<int>(sizeof(T))>
struct VectorOf {
  static constexpr int kLanes = kCount;
  typedef T Type __attribute__((vector_size(kCount * sizeof(T))));
  // Of any alignment.
  [[gnu::always_inline]] static Type Load(const T* from) {
    Type v;
    std::memcpy(&v, from, sizeof(v));
    return v;
  }
  [[gnu::always_inline]] static void Store(T* to, Type v) { std::memcpy(to, &v, sizeof(v)); }
};

}  // namespace tenon::cpu

#endif  // TENON_DEVICES_CPU_KERNELS_VECTOR_H_
