// SPDX-License-Identifier: Apache-2.0
// One element-wise op on elements of any type. What element-wise kernels and the compiler of chains (fuse/) are made
// of.
#ifndef TENON_DEVICES_GPU_CODE_APPLY_H_
#define TENON_DEVICES_GPU_CODE_APPLY_H_

#include "code/functions.h"
#include "code/grid.h"

namespace tenon::gpu {

using namespace sdk;  // NOLINT(google-build-using-namespace): the names of the ops

template <class Op>
TENON_GPU_FUNCTION Op MakeOp(float alpha) {
  if constexpr (std::is_constructible_v<Op, float>) {
    return Op(alpha);
  } else {
    return Op();
  }
}

// What one op makes of elements: halves are computed as floats and rounded once, or where the op says so in between.
template <class Op, class T>
TENON_GPU_FUNCTION auto Of(const Op& op, T x) {
  const auto result = op(static_cast<Wide<T>>(x));
  if constexpr (std::is_same_v<std::decay_t<decltype(result)>, bool>) {
    return result;
  } else {
    return static_cast<T>(result);
  }
}
template <class Op, class T>
TENON_GPU_FUNCTION auto Of(const Op& op, T a, T b) {
  if constexpr (kIsHalf<T> && std::is_same_v<Op, FloorDivOp>) {
    return T(std::floor(static_cast<float>(T(static_cast<float>(a) / static_cast<float>(b)))));
  } else if constexpr (kIsHalf<T> && std::is_same_v<Op, TruncateDivOp>) {
    return T(std::trunc(static_cast<float>(T(static_cast<float>(a) / static_cast<float>(b)))));
  } else {
    const auto result = op(static_cast<Wide<T>>(a), static_cast<Wide<T>>(b));
    if constexpr (std::is_same_v<std::decay_t<decltype(result)>, bool>) {
      return result;
    } else {
      return static_cast<T>(result);
    }
  }
}

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_APPLY_H_
