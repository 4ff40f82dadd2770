// SPDX-License-Identifier: Apache-2.0
#include "code/elementwise.h"

#include "code/apply.h"
#include "code/pack.h"

namespace tenon::gpu {

template <class Op, class T>
TENON_GPU_FUNCTION void Unary(const UnaryParams& p) {
  using Result = decltype(Of(Op(MakeOp<Op>(0)), T()));
  const Op op = MakeOp<Op>(p.alpha);
  const T* x = static_cast<const T*>(p.x);
  Result* y = static_cast<Result*>(p.y);
  int64_t begin = 0;
  if constexpr (sizeof(Result) == sizeof(T)) {
    if (IsEven(x, y)) {
      const int64_t packs = p.count / Pack<T>::kCount;
      for (int64_t i = Thread(); i < packs; i += Threads()) {
        const Pack<T> from = reinterpret_cast<const Pack<T>*>(x)[i];
        Pack<T> to;
        for (int k = 0; k < Pack<T>::kCount; ++k) to.at[k] = Of(op, from.at[k]);
        reinterpret_cast<Pack<T>*>(y)[i] = to;
      }
      begin = packs * Pack<T>::kCount;
    }
  }
  for (int64_t i = begin + Thread(); i < p.count; i += Threads()) y[i] = Of(op, x[i]);
}

// Where the elements of both inputs are for one of the output. Index: 32 bits where they suffice, which divide faster.
template <class Index>
TENON_GPU_FUNCTION void Locate(const BinaryParams& p, Index i, int64_t* a, int64_t* b) {
  const auto inner = static_cast<Index>(p.inner);
  Index row = i / inner;
  const auto column = static_cast<int64_t>(i - row * inner);
  *a = column * p.a_step;
  *b = column * p.b_step;
  for (int d = p.rank - 1; d >= 0; --d) {
    const auto dim = static_cast<Index>(p.dims[d]);
    const Index above = row / dim;
    const auto at = static_cast<int64_t>(row - above * dim);
    row = above;
    *a += at * p.a_strides[d];
    *b += at * p.b_strides[d];
  }
}

template <class Op, class T>
TENON_GPU_FUNCTION auto Checked(const Op& op, T a, T b, const BinaryParams& p, int64_t i) {
  if constexpr (std::is_integral_v<T> && requires { Op::Invalid(T{}); }) {
    if (Op::Invalid(b)) {
      Report(p.site, i, static_cast<int64_t>(b), 0);
      return T(0);
    }
  }
  return Of(op, a, b);
}

template <class Op, class T>
TENON_GPU_FUNCTION void Binary(const BinaryParams& p) {
  using Result = decltype(Of(Op(MakeOp<Op>(0)), T(), T()));
  const Op op = MakeOp<Op>(p.alpha);
  const T* a = static_cast<const T*>(p.a);
  const T* b = static_cast<const T*>(p.b);
  Result* out = static_cast<Result*>(p.out);
  if (p.rank == 0) {  // alike, or one is a single element
    int64_t begin = 0;
    if constexpr (sizeof(Result) == sizeof(T)) {
      if (IsEven(out, p.a_step == 1 ? a : nullptr) && IsEven(nullptr, p.b_step == 1 ? b : nullptr)) {
        const int64_t packs = p.total / Pack<T>::kCount;
        for (int64_t i = Thread(); i < packs; i += Threads()) {
          Pack<T> from_a, from_b, to;
          if (p.a_step == 1) from_a = reinterpret_cast<const Pack<T>*>(a)[i];
          if (p.b_step == 1) from_b = reinterpret_cast<const Pack<T>*>(b)[i];
          for (int k = 0; k < Pack<T>::kCount; ++k) {
            to.at[k] = Checked(op, p.a_step == 1 ? from_a.at[k] : a[0], p.b_step == 1 ? from_b.at[k] : b[0], p, i * Pack<T>::kCount + k);
          }
          reinterpret_cast<Pack<T>*>(out)[i] = to;
        }
        begin = packs * Pack<T>::kCount;
      }
    }
    for (int64_t i = begin + Thread(); i < p.total; i += Threads()) out[i] = Checked(op, a[i * p.a_step], b[i * p.b_step], p, i);
    return;
  }
  for (int64_t i = Thread(); i < p.total; i += Threads()) {
    int64_t from_a, from_b;
    if (p.total <= INT32_MAX) {
      Locate(p, static_cast<uint32_t>(i), &from_a, &from_b);
    } else {
      Locate(p, static_cast<uint64_t>(i), &from_a, &from_b);
    }
    out[i] = Checked(op, a[from_a], b[from_b], p, i);
  }
}

#define TENON_GPU_FLOATS(make, Name) make(Name, f32, float) make(Name, f64, double) make(Name, f16, Half) make(Name, bf16, Bfloat16)
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

}  // namespace tenon::gpu
