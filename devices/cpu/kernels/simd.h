// SPDX-License-Identifier: Apache-2.0
// The widest vector of the x86-64 level that this file is compiled for, as one small interface for float and double.
//
// LoadFirst and StoreFirst touch the first n lanes only (0 < n <= kLanes); the other lanes load as zero.
#ifndef TENON_DEVICES_CPU_KERNELS_SIMD_H_
#define TENON_DEVICES_CPU_KERNELS_SIMD_H_

#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace tenon::cpu {

template <class T>
struct Simd;

#if defined(__AVX512F__)

inline constexpr int kSimdRegisters = 32;
template <>
struct Simd<float> {
  using V = __m512;
  static constexpr int kLanes = 16;
  static V Zero() { return _mm512_setzero_ps(); }
  static V Set(float x) { return _mm512_set1_ps(x); }
  static V Load(const float* p) { return _mm512_loadu_ps(p); }
  static void Store(float* p, V v) { _mm512_storeu_ps(p, v); }
  static V LoadFirst(const float* p, int n) { return _mm512_maskz_loadu_ps(Mask(n), p); }
  static void StoreFirst(float* p, V v, int n) { _mm512_mask_storeu_ps(p, Mask(n), v); }
  static V Fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
  static V Add(V a, V b) { return _mm512_add_ps(a, b); }
  static float Sum(V v) {
    alignas(64) float lane[16];
    _mm512_store_ps(lane, v);
    for (int width = 8; width > 0; width /= 2) {
      for (int i = 0; i < width; ++i) lane[i] += lane[i + width];
    }
    return lane[0];
  }
  static __mmask16 Mask(int n) { return static_cast<__mmask16>((1u << n) - 1u); }
};
template <>
struct Simd<double> {
  using V = __m512d;
  static constexpr int kLanes = 8;
  static V Zero() { return _mm512_setzero_pd(); }
  static V Set(double x) { return _mm512_set1_pd(x); }
  static V Load(const double* p) { return _mm512_loadu_pd(p); }
  static void Store(double* p, V v) { _mm512_storeu_pd(p, v); }
  static V LoadFirst(const double* p, int n) { return _mm512_maskz_loadu_pd(Mask(n), p); }
  static void StoreFirst(double* p, V v, int n) { _mm512_mask_storeu_pd(p, Mask(n), v); }
  static V Fma(V a, V b, V c) { return _mm512_fmadd_pd(a, b, c); }
  static V Add(V a, V b) { return _mm512_add_pd(a, b); }
  static double Sum(V v) {
    alignas(64) double lane[8];
    _mm512_store_pd(lane, v);
    for (int width = 4; width > 0; width /= 2) {
      for (int i = 0; i < width; ++i) lane[i] += lane[i + width];
    }
    return lane[0];
  }
  static __mmask8 Mask(int n) { return static_cast<__mmask8>((1u << n) - 1u); }
};

#elif defined(__AVX2__) && defined(__FMA__)

inline constexpr int kSimdRegisters = 16;
alignas(64) inline constexpr int32_t kMasks32[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
alignas(64) inline constexpr int64_t kMasks64[8] = {-1, -1, -1, -1};
template <>
struct Simd<float> {
  using V = __m256;
  static constexpr int kLanes = 8;
  static V Zero() { return _mm256_setzero_ps(); }
  static V Set(float x) { return _mm256_set1_ps(x); }
  static V Load(const float* p) { return _mm256_loadu_ps(p); }
  static void Store(float* p, V v) { _mm256_storeu_ps(p, v); }
  static V LoadFirst(const float* p, int n) { return _mm256_maskload_ps(p, Mask(n)); }
  static void StoreFirst(float* p, V v, int n) { _mm256_maskstore_ps(p, Mask(n), v); }
  static V Fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
  static V Add(V a, V b) { return _mm256_add_ps(a, b); }
  static float Sum(V v) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
  }
  static __m256i Mask(int n) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMasks32 + 8 - n)); }
};
template <>
struct Simd<double> {
  using V = __m256d;
  static constexpr int kLanes = 4;
  static V Zero() { return _mm256_setzero_pd(); }
  static V Set(double x) { return _mm256_set1_pd(x); }
  static V Load(const double* p) { return _mm256_loadu_pd(p); }
  static void Store(double* p, V v) { _mm256_storeu_pd(p, v); }
  static V LoadFirst(const double* p, int n) { return _mm256_maskload_pd(p, Mask(n)); }
  static void StoreFirst(double* p, V v, int n) { _mm256_maskstore_pd(p, Mask(n), v); }
  static V Fma(V a, V b, V c) { return _mm256_fmadd_pd(a, b, c); }
  static V Add(V a, V b) { return _mm256_add_pd(a, b); }
  static double Sum(V v) {
    const __m128d s = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_add_sd(s, _mm_unpackhi_pd(s, s)));
  }
  static __m256i Mask(int n) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMasks64 + 4 - n)); }
};

#else

// The compiler's own vectors of 16 bytes: SSE2, NEON, or scalar code.
inline constexpr int kSimdRegisters = 16;
template <class T>
struct Simd {
  typedef T V __attribute__((vector_size(16)));
  static constexpr int kLanes = 16 / sizeof(T);
  static V Zero() { return V{}; }
  static V Set(T x) { return x - V{}; }
  static V Load(const T* p) { return LoadFirst(p, kLanes); }
  static void Store(T* p, V v) { StoreFirst(p, v, kLanes); }
  static V LoadFirst(const T* p, int n) {
    V v{};
    std::memcpy(&v, p, static_cast<size_t>(n) * sizeof(T));
    return v;
  }
  static void StoreFirst(T* p, V v, int n) { std::memcpy(p, &v, static_cast<size_t>(n) * sizeof(T)); }
  static V Fma(V a, V b, V c) { return a * b + c; }
  static V Add(V a, V b) { return a + b; }
  static T Sum(V v) {
    T sum = 0;
    for (int i = 0; i < kLanes; ++i) sum += v[i];
    return sum;
  }
};

#endif

}  // namespace tenon::cpu

#endif  // TENON_DEVICES_CPU_KERNELS_SIMD_H_
