// SPDX-License-Identifier: Apache-2.0
#include "code/grid.h"
#include "code/select.h"

namespace tenon::gpu {

struct Converting {
  template <class To, class From>
  TENON_GPU_FUNCTION static To Of(From x) { return sdk::Convert<To>(x); }
};
struct Cutting {
  template <class To, class From>
  TENON_GPU_FUNCTION static To Of(From x) { return sdk::ConvertCut<To>(x); }
};

// Four elements at a time where both sides are aligned for it.
template <class T>
struct alignas(sizeof(T) < 4 ? 4 * sizeof(T) : 16) Four {
  T at[4];
};

// Of `count` elements those of one of so many threads.
template <class From, class To, class How>
TENON_GPU_FUNCTION void CastSome(const From* x, To* out, int64_t count, int64_t thread, int64_t threads) {
  int64_t begin = 0;
  if (reinterpret_cast<uintptr_t>(x) % alignof(Four<From>) == 0 &&
      reinterpret_cast<uintptr_t>(out) % alignof(Four<To>) == 0) {
    const int64_t fours = count / 4;
    TENON_GPU_ROLLED for (int64_t i = thread; i < fours; i += threads) {
      const Four<From> from = reinterpret_cast<const Four<From>*>(x)[i];
      Four<To> to;
      for (int k = 0; k < 4; ++k) to.at[k] = How::template Of<To>(from.at[k]);
      reinterpret_cast<Four<To>*>(out)[i] = to;
    }
    begin = fours * 4;
  }
  TENON_GPU_ROLLED for (int64_t i = begin + thread; i < count; i += threads) out[i] = How::template Of<To>(x[i]);
}

template <class From, class To, class How = Converting>
TENON_GPU_FUNCTION void Cast(const CastParams& p) {
  CastSome<From, To, How>(static_cast<const From*>(p.x), static_cast<To*>(p.out), p.count, Thread(), Threads());
}

template <class From, class To>
TENON_GPU_FUNCTION void CastMany(const CastManyParams& p) {
  int32_t at = 0;
  for (int64_t chunk = BlockX(); chunk < p.chunks; chunk += BlocksX()) {
    while (at + 1 < p.items && p.item[at + 1].first_chunk <= chunk) ++at;
    const CastManyParams::Item& item = p.item[at];
    const int64_t begin = (chunk - item.first_chunk) * kCastChunk, left = item.count - begin;
    CastSome<From, To, Converting>(static_cast<const From*>(item.x) + begin, static_cast<To*>(item.out) + begin,
                                   left < kCastChunk ? left : kCastChunk, BlockThread(), BlockThreads());
  }
}

#define TENON_GPU_CAST(from, From, to, To) TENON_GPU_KERNEL(Cast_##from##_##to, CastParams, Cast<From, To>)
#define TENON_GPU_CASTS(from, From)                                                                       \
  TENON_GPU_CAST(from, From, f32, float) TENON_GPU_CAST(from, From, f64, double)                          \
  TENON_GPU_CAST(from, From, f16, Half) TENON_GPU_CAST(from, From, bf16, Bfloat16)                        \
  TENON_GPU_CAST(from, From, i32, int32_t) TENON_GPU_CAST(from, From, i64, int64_t)                       \
  TENON_GPU_CAST(from, From, b8, bool) TENON_GPU_CAST(from, From, u8, uint8_t)                            \
  TENON_GPU_CAST(from, From, i8, int8_t) TENON_GPU_CAST(from, From, i16, int16_t)
TENON_GPU_CASTS(f32, float)
TENON_GPU_CASTS(f64, double)
TENON_GPU_CASTS(f16, Half)
TENON_GPU_CASTS(bf16, Bfloat16)
TENON_GPU_CASTS(i32, int32_t)
TENON_GPU_CASTS(i64, int64_t)
TENON_GPU_CASTS(b8, bool)
TENON_GPU_CASTS(u8, uint8_t)
TENON_GPU_CASTS(i8, int8_t)
TENON_GPU_CASTS(i16, int16_t)

TENON_GPU_BLOCK_KERNEL_OF(kCastThreads, CastMany_f32_f16, CastManyParams, CastMany<float, Half>)
TENON_GPU_BLOCK_KERNEL_OF(kCastThreads, CastMany_f32_bf16, CastManyParams, CastMany<float, Bfloat16>)

#define TENON_GPU_CUT(from, From, to, To) TENON_GPU_KERNEL(Cut_##from##_##to, CastParams, Cast<From, To, Cutting>)
TENON_GPU_CUT(f32, float, f16, Half)
TENON_GPU_CUT(f32, float, bf16, Bfloat16)
TENON_GPU_CUT(f64, double, f16, Half)
TENON_GPU_CUT(f64, double, bf16, Bfloat16)

}  // namespace tenon::gpu
