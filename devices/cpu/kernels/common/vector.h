// SPDX-License-Identifier: Apache-2.0
// One register full of elements, where a kernel says itself what stays in registers. Elsewhere the compiler makes the
// vectors.
#ifndef TENON_DEVICES_CPU_KERNELS_COMMON_VECTOR_H_
#define TENON_DEVICES_CPU_KERNELS_COMMON_VECTOR_H_

#include <cstdint>
#include <cstring>
#include <utility>

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
  // The first `count` elements, of fewer than all: a call of memcpy would cost more.
  [[gnu::always_inline]] static void StoreFirst(T* to, Type v, int64_t count) { StorePart<kCount / 2>(to, v, count); }

 private:
  template <int kPart>
  [[gnu::always_inline]] static void StorePart(T* to, Type v, int64_t count) {
    if constexpr (kPart > 0) {
      if ((count & kPart) != 0) {
        std::memcpy(to, &v, kPart * sizeof(T));
        v = Behind<kPart>(v, std::make_integer_sequence<int, kCount>());
        to += kPart;
      }
      StorePart<kPart / 2>(to, v, count);
    }
  }
  template <int kPart, int... kIndex>
  [[gnu::always_inline]] static Type Behind(Type v, std::integer_sequence<int, kIndex...>) {
    return __builtin_shufflevector(v, v, ((kIndex + kPart) % kCount)...);
  }
};

// memcpy by registers: the C library copies kilobytes by an instruction that is several times slower where source and
// target lie differently in their cache lines.
inline void CopyBytes(void* to, const void* from, int64_t bytes) {
  using Bytes = VectorOf<char>;
  auto* target = static_cast<char*>(to);
  const auto* source = static_cast<const char*>(from);
  int64_t i = 0;
  for (; i + 4 * Bytes::kLanes <= bytes; i += 4 * Bytes::kLanes) {
    const Bytes::Type a = Bytes::Load(source + i), b = Bytes::Load(source + i + Bytes::kLanes);
    const Bytes::Type c = Bytes::Load(source + i + 2 * Bytes::kLanes), d = Bytes::Load(source + i + 3 * Bytes::kLanes);
    Bytes::Store(target + i, a);
    Bytes::Store(target + i + Bytes::kLanes, b);
    Bytes::Store(target + i + 2 * Bytes::kLanes, c);
    Bytes::Store(target + i + 3 * Bytes::kLanes, d);
  }
  if (i < bytes) std::memcpy(target + i, source + i, static_cast<size_t>(bytes - i));
}

}  // namespace tenon::cpu

#endif  // TENON_DEVICES_CPU_KERNELS_COMMON_VECTOR_H_
