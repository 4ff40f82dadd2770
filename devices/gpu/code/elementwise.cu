// SPDX-License-Identifier: Apache-2.0
#include "code/elementwise.h"

#include "code/map.h"

namespace tenon::gpu {

struct NextAfterOp {
  template <class T>
  TENON_GPU_FUNCTION T operator()(T x, T y) const { return std::nextafter(x, y); }
};

#define TENON_GPU_FLOATS(make, Name) \
  make(Name, f32, float) make(Name, f64, double) make(Name, f16, Half) make(Name, bf16, Bfloat16)
#define TENON_GPU_NUMBERS(make, Name) TENON_GPU_FLOATS(make, Name) make(Name, i32, int32_t) make(Name, i64, int64_t)
#define TENON_GPU_UNARY(Name, suffix, T) TENON_GPU_KERNEL(Name##_##suffix, UnaryParams, Unary<Name##Op, T>)
#define TENON_GPU_BINARY(Name, suffix, T) TENON_GPU_KERNEL(Name##_##suffix, BinaryParams, Binary<Name##Op, T>)

#define TENON_GPU_UNARY_NUMBERS(Name) TENON_GPU_NUMBERS(TENON_GPU_UNARY, Name)
#define TENON_GPU_UNARY_FLOATS(Name) TENON_GPU_FLOATS(TENON_GPU_UNARY, Name)
#define TENON_GPU_BINARY_NUMBERS(Name) TENON_GPU_NUMBERS(TENON_GPU_BINARY, Name)
#define TENON_GPU_BINARY_FLOATS(Name) TENON_GPU_FLOATS(TENON_GPU_BINARY, Name)
#define TENON_GPU_BINARY_EQUALS(Name) TENON_GPU_NUMBERS(TENON_GPU_BINARY, Name) TENON_GPU_BINARY(Name, b8, bool)
#define TENON_GPU_BINARY_BOOLS(Name) TENON_GPU_BINARY(Name, b8, bool)

TENON_GPU_UNARY_OF_NUMBERS(TENON_GPU_UNARY_NUMBERS)
TENON_GPU_UNARY_OF_FLOATS(TENON_GPU_UNARY_FLOATS)
TENON_GPU_UNARY_QUESTIONS(TENON_GPU_UNARY_FLOATS)
TENON_GPU_UNARY(Not, b8, bool)
TENON_GPU_BINARY_OF_NUMBERS(TENON_GPU_BINARY_NUMBERS)
TENON_GPU_BINARY_THAT_MAY_FAIL(TENON_GPU_BINARY_NUMBERS)
TENON_GPU_BINARY_OF_FLOATS(TENON_GPU_BINARY_FLOATS)
TENON_GPU_BINARY_QUESTIONS(TENON_GPU_BINARY_NUMBERS)
TENON_GPU_BINARY_EQUALITIES(TENON_GPU_BINARY_EQUALS)
TENON_GPU_BINARY_OF_BOOLS(TENON_GPU_BINARY_BOOLS)
TENON_GPU_BINARY(NextAfter, f32, float)
TENON_GPU_BINARY(NextAfter, f64, double)

// The lower bound counts where the bounds are the wrong way round; a bound that is NaN bounds nothing.
template <class T>
TENON_GPU_FUNCTION void Clip(const ClipParams& p) {
  const T* const x = static_cast<const T*>(p.x);
  const T* const low = static_cast<const T*>(p.low);
  const T* const high = static_cast<const T*>(p.high);
  for (int64_t i = Thread(); i < p.count; i += Threads()) {
    const Wide<T> value = x[i], most = high[i * p.high_step], least = low[i * p.low_step];
    const Wide<T> not_above = value > most ? most : value;
    static_cast<T*>(p.out)[i] = static_cast<T>(not_above < least ? least : not_above);
  }
}
#define TENON_GPU_CLIP(Name, suffix, T) TENON_GPU_KERNEL(Name##_##suffix, ClipParams, Clip<T>)
TENON_GPU_NUMBERS(TENON_GPU_CLIP, Clip)

}  // namespace tenon::gpu
