// SPDX-License-Identifier: Apache-2.0
// Rows of halves to and from floats: by the processor's conversion of eight or sixteen at a time where it has one
// (F16C, AVX-512), bit-equal to one at a time (tenon/sdk/kernel/element.h). Input and output do not overlap.
#ifndef TENON_DEVICES_CPU_KERNELS_COMMON_HALF_H_
#define TENON_DEVICES_CPU_KERNELS_COMMON_HALF_H_

#include <cstdint>

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "kernels/common/types.h"

namespace tenon::cpu {

inline void ToFloats(const Half* x, float* out, int64_t n) {
  int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16)
    _mm512_storeu_ps(out + i,
                     _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i))));
#endif
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i))));
#endif
  for (; i < n; ++i) out[i] = static_cast<float>(x[i]);
}

// To the nearest, of two to the even one.
inline void FromFloats(const float* x, Half* out, int64_t n) {
  int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16) {
    _mm256_storeu_si256(
        reinterpret_cast<__m256i*>(out + i),
        _mm512_maskz_cvtps_ph(0xffff, _mm512_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
#endif
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
#endif
  for (; i < n; ++i) out[i] = Half(x[i]);
}

// Of bfloat16, whose bits the compiler moves as vectors.
inline void ToFloats(const Bfloat16* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(x[i]);
}
inline void FromFloats(const float* x, Bfloat16* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = Bfloat16(x[i]);
}

}  // namespace tenon::cpu

#endif  // TENON_DEVICES_CPU_KERNELS_COMMON_HALF_H_
