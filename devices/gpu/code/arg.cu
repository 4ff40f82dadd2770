// SPDX-License-Identifier: Apache-2.0
// ArgMax and ArgMin: a reduction to the value and where it stands.
#include <limits>

#include "code/reduction.h"

namespace tenon::gpu {

template <class A>
struct Best {
  A value;
  int64_t place;  // below 0: none yet
};
template <class A>
TENON_GPU_FUNCTION Best<A> ShuffleXor(Best<A> best, uint32_t mask) {
  return {ShuffleXor(best.value, mask), ShuffleXor(best.place, mask)};
}

// The first of equal elements, whatever the order of merging. As in TensorFlow it is what is better than the worst
// finite number: a NaN is passed over, and where nothing is better it is the first element.
template <class T, bool kMax>
struct Choosing {
  using Value = std::conditional_t<std::is_same_v<T, bool>, int32_t, Wide<T>>;
  using Part = Best<Value>;
  using Total = Part;
  TENON_GPU_FUNCTION explicit Choosing(const ArgParams& given) : p(given) {}
  static TENON_GPU_FUNCTION Total First() { return {Value(0), -1}; }
  template <class A>
  static TENON_GPU_FUNCTION A Merge(A a, A b) {
    if (a.place < 0 || b.place < 0) return b.place < 0 ? a : b;
    if (a.value == b.value) return a.place < b.place ? a : b;
    return (kMax ? a.value > b.value : a.value < b.value) ? a : b;
  }
  TENON_GPU_FUNCTION Part Load(int64_t at, int64_t, int64_t r) const {
    const auto value = static_cast<Value>(static_cast<const T*>(p.x)[at]);
    constexpr Value kWorst = Worst();
    return (kMax ? value > kWorst : value < kWorst) ? Part{value, r} : Part{kWorst, -1};
  }
  static TENON_GPU_FUNCTION constexpr Value Worst() {
    if constexpr (std::is_same_v<T, Half>) return kMax ? -65504.0f : 65504.0f;
    else if constexpr (std::is_same_v<T, Bfloat16>) return kMax ? -0x1.fep127f : 0x1.fep127f;
    else return kMax ? std::numeric_limits<Value>::lowest() : std::numeric_limits<Value>::max();
  }
  TENON_GPU_FUNCTION void Store(int64_t o, Total total) const {
    if (total.place < 0) total.place = 0;
    switch (p.place_bytes) {
      case 2: static_cast<uint16_t*>(p.out)[o] = static_cast<uint16_t>(total.place); break;
      case 4: static_cast<int32_t*>(p.out)[o] = static_cast<int32_t>(total.place); break;
      default: static_cast<int64_t*>(p.out)[o] = total.place;
    }
  }
  const ArgParams& p;
};

#define TENON_GPU_ARG(suffix, T)                                         \
  TENON_GPU_REDUCTION(ArgMax, suffix, ArgParams, Choosing<T, true>)      \
  TENON_GPU_REDUCTION(ArgMin, suffix, ArgParams, Choosing<T, false>)
TENON_GPU_ARG(f32, float)
TENON_GPU_ARG(f64, double)
TENON_GPU_ARG(f16, Half)
TENON_GPU_ARG(bf16, Bfloat16)
TENON_GPU_ARG(i32, int32_t)
TENON_GPU_ARG(i64, int64_t)
TENON_GPU_ARG(b8, bool)

}  // namespace tenon::gpu
