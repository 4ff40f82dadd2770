// SPDX-License-Identifier: Apache-2.0
// Kernels of one op on every element of one tensor, or of two that broadcast.
#ifndef TENON_DEVICES_GPU_CODE_MAP_H_
#define TENON_DEVICES_GPU_CODE_MAP_H_

#include "code/apply.h"
#include "code/elementwise.h"
#include "code/index.h"
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

// visit(i, a, b) for every element i of the output, with the places of those of the inputs.
template <class Visit>
TENON_GPU_FUNCTION void ForEachPair(const BinaryParams& p, const Visit& visit) {
  for (int64_t i = Thread(); i < p.total; i += Threads()) {
    int64_t a, b;
    if (p.total <= INT32_MAX) {
      Locate(p, static_cast<uint32_t>(i), &a, &b);
    } else {
      Locate(p, static_cast<uint64_t>(i), &a, &b);
    }
    visit(i, a, b);
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
            to.at[k] = Checked(op, p.a_step == 1 ? from_a.at[k] : a[0], p.b_step == 1 ? from_b.at[k] : b[0], p,
                               i * Pack<T>::kCount + k);
          }
          reinterpret_cast<Pack<T>*>(out)[i] = to;
        }
        begin = packs * Pack<T>::kCount;
      }
    }
    for (int64_t i = begin + Thread(); i < p.total; i += Threads())
      out[i] = Checked(op, a[i * p.a_step], b[i * p.b_step], p, i);
    return;
  }
  ForEachPair(p, [&](int64_t i, int64_t from_a, int64_t from_b) { out[i] = Checked(op, a[from_a], b[from_b], p, i); });
}

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_MAP_H_
