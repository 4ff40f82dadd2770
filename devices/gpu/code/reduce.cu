// SPDX-License-Identifier: Apache-2.0
#include "code/reduce.h"

#include <limits>

#include "code/reduction.h"
#include "tenon/extras/kernel/elementwise.h"
#include "tenon/extras/kernel/update.h"

namespace tenon::gpu {

// A reduction's neutral element and step.
struct Summing {
  template <class A>
  static TENON_GPU_FUNCTION A First() { return A(0); }
  template <class A>
  static TENON_GPU_FUNCTION A Merge(A x, A y) { return sdk::AddOp()(x, y); }
};
struct Averaging : Summing {};  // of integers
struct Squaring : Summing {};   // sums squares
struct Multiplying {
  template <class A>
  static TENON_GPU_FUNCTION A First() { return A(1); }
  template <class A>
  static TENON_GPU_FUNCTION A Merge(A x, A y) { return sdk::MulOp()(x, y); }
};
template <class A>
TENON_GPU_FUNCTION constexpr A Largest() {
  return std::is_floating_point_v<A> ? std::numeric_limits<A>::infinity() : std::numeric_limits<A>::max();
}
template <class A>
TENON_GPU_FUNCTION constexpr A Smallest() {
  return std::is_floating_point_v<A> ? -Largest<A>() : std::numeric_limits<A>::lowest();
}
struct Maximising {
  template <class A>
  static TENON_GPU_FUNCTION A First() { return Smallest<A>(); }
  template <class A>
  static TENON_GPU_FUNCTION A Merge(A x, A y) { return sdk::MaximumOp()(x, y); }
};
struct Minimising {
  template <class A>
  static TENON_GPU_FUNCTION A First() { return Largest<A>(); }
  template <class A>
  static TENON_GPU_FUNCTION A Merge(A x, A y) { return sdk::MinimumOp()(x, y); }
};
struct Conjoining {
  template <class A>
  static TENON_GPU_FUNCTION A First() { return A(1); }
  template <class A>
  static TENON_GPU_FUNCTION A Merge(A x, A y) { return x & y; }
};
struct Disjoining {
  template <class A>
  static TENON_GPU_FUNCTION A First() { return A(0); }
  template <class A>
  static TENON_GPU_FUNCTION A Merge(A x, A y) { return x | y; }
};

// Warps exchange words: a bool is merged as one. A mean of integers is of a sum that does not wrap.
template <class Op, class T>
using PartOf = std::conditional_t<std::is_same_v<T, bool>, uint32_t,
                                  std::conditional_t<std::is_same_v<Op, Averaging>, int64_t, Wide<T>>>;
// Many floats are added in double.
template <class Op, class Part>
using TotalOf = std::conditional_t<std::is_base_of_v<Summing, Op> && std::is_same_v<Part, float>, double, Part>;

template <class Op, class T>
struct Reducing : Op {
  using Element = T;
  using Part = PartOf<Op, T>;
  using Total = TotalOf<Op, Part>;
  TENON_GPU_FUNCTION explicit Reducing(const ReduceParams& given) : p(given) {}
  static TENON_GPU_FUNCTION Total First() { return Op::template First<Total>(); }
  static TENON_GPU_FUNCTION Part Of(T element) {
    const auto part = static_cast<Part>(static_cast<Wide<T>>(element));
    if constexpr (std::is_same_v<Op, Squaring>) {
      return part * part;
    } else {
      return part;
    }
  }
  TENON_GPU_FUNCTION const T* elements() const { return static_cast<const T*>(p.x); }
  TENON_GPU_FUNCTION Part Load(int64_t at, int64_t, int64_t) const { return Of(elements()[at]); }
  TENON_GPU_FUNCTION void Store(int64_t o, Total total) const {
    if constexpr (std::is_base_of_v<Summing, Op>) {
      if (p.divide != 0) total = total / static_cast<Total>(p.divisor);
    }
    static_cast<T*>(p.out)[o] = static_cast<T>(static_cast<Wide<T>>(total));
  }
  const ReduceParams& p;
};

#define TENON_GPU_REDUCE(Name, Op, suffix, T) TENON_GPU_REDUCTION(Name, suffix, ReduceParams, Reducing<Op, T>)
#define TENON_GPU_REDUCE_FLOATS(Name, Op)                                                                        \
  TENON_GPU_REDUCE(Name, Op, f32, float) TENON_GPU_REDUCE(Name, Op, f64, double)                                 \
  TENON_GPU_REDUCE(Name, Op, f16, Half) TENON_GPU_REDUCE(Name, Op, bf16, Bfloat16)
#define TENON_GPU_REDUCE_NUMBERS(Name, Op) \
  TENON_GPU_REDUCE_FLOATS(Name, Op) TENON_GPU_REDUCE(Name, Op, i32, int32_t) TENON_GPU_REDUCE(Name, Op, i64, int64_t)

TENON_GPU_REDUCE_NUMBERS(Sum, Summing)
TENON_GPU_REDUCE_NUMBERS(Prod, Multiplying)
TENON_GPU_REDUCE_NUMBERS(Max, Maximising)
TENON_GPU_REDUCE_NUMBERS(Min, Minimising)
TENON_GPU_REDUCE(Mean, Averaging, i32, int32_t)
TENON_GPU_REDUCE_FLOATS(Squares, Squaring)
TENON_GPU_REDUCE(All, Conjoining, b8, bool)
TENON_GPU_REDUCE(Any, Disjoining, b8, bool)

// ---- CheckNumerics ----

// Bit 0: a NaN; bit 1: an infinity.
template <class T>
struct Checking : Disjoining {
  using Element = T;
  using Part = uint32_t;
  using Total = uint32_t;
  TENON_GPU_FUNCTION explicit Checking(const CheckParams& given) : p(given) {}
  static TENON_GPU_FUNCTION Total First() { return 0; }
  static TENON_GPU_FUNCTION Part Of(T element) {
    const Wide<T> value = element;
    if (value != value) return 1;
    return value - value == 0 ? 0 : 2;
  }
  TENON_GPU_FUNCTION const T* elements() const { return static_cast<const T*>(p.x); }
  TENON_GPU_FUNCTION Part Load(int64_t at, int64_t, int64_t) const { return Of(elements()[at]); }
  TENON_GPU_FUNCTION void Store(int64_t, Total found) const {
    if (found != 0) Report(found == 1 ? p.nan : found == 2 ? p.infinite : p.both, 0, 0, 0);
  }
  const CheckParams& p;
};
TENON_GPU_REDUCTION(Check, f32, CheckParams, Checking<float>)
TENON_GPU_REDUCTION(Check, f64, CheckParams, Checking<double>)
TENON_GPU_REDUCTION(Check, f16, CheckParams, Checking<Half>)
TENON_GPU_REDUCTION(Check, bf16, CheckParams, Checking<Bfloat16>)

// ---- AddN ----

// In the order of the inputs, rounded after each.
template <class T>
TENON_GPU_FUNCTION void AddN(const AddNParams& p) {
  T* out = static_cast<T*>(p.out);
  bool even = IsEven(out, nullptr);
  for (int k = 0; k < p.inputs; ++k) even = even && IsEven(p.x[k], nullptr);
  const int64_t packs = even ? p.count / Pack<T>::kCount : 0;
  for (int64_t i = Thread(); i < packs; i += Threads()) {
    Pack<T> sum = static_cast<const Pack<T>*>(p.x[0])[i];
    for (int k = 1; k < p.inputs; ++k) {
      const Pack<T> more = static_cast<const Pack<T>*>(p.x[k])[i];
      for (int e = 0; e < Pack<T>::kCount; ++e) sum.at[e] = sdk::AddOrSubtract<false>(sum.at[e], more.at[e]);
    }
    reinterpret_cast<Pack<T>*>(out)[i] = sum;
  }
  for (int64_t i = packs * Pack<T>::kCount + Thread(); i < p.count; i += Threads()) {
    T sum = static_cast<const T*>(p.x[0])[i];
    for (int k = 1; k < p.inputs; ++k) sum = sdk::AddOrSubtract<false>(sum, static_cast<const T*>(p.x[k])[i]);
    out[i] = sum;
  }
}
TENON_GPU_KERNEL(AddN_f32, AddNParams, AddN<float>)
TENON_GPU_KERNEL(AddN_f64, AddNParams, AddN<double>)
TENON_GPU_KERNEL(AddN_f16, AddNParams, AddN<Half>)
TENON_GPU_KERNEL(AddN_bf16, AddNParams, AddN<Bfloat16>)
TENON_GPU_KERNEL(AddN_i32, AddNParams, AddN<int32_t>)
TENON_GPU_KERNEL(AddN_i64, AddNParams, AddN<int64_t>)

}  // namespace tenon::gpu
