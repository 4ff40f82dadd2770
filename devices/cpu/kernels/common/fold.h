// SPDX-License-Identifier: Apache-2.0
// The lanes of a vector to one value: halves are combined again and again, in registers.
#ifndef TENON_DEVICES_CPU_KERNELS_COMMON_FOLD_H_
#define TENON_DEVICES_CPU_KERNELS_COMMON_FOLD_H_

#include <cstdint>

namespace tenon::cpu {

// combine(x, y) of lanes l and l + half, until one is left. kLanes is a power of two.
template <int64_t kLanes, class T, class Combine>
inline T Fold(const T (&lanes)[kLanes], const Combine& combine) {
  if constexpr (kLanes == 1) {
    return lanes[0];
  } else {
    T half[kLanes / 2];
    for (int64_t l = 0; l < kLanes / 2; ++l) half[l] = combine(lanes[l], lanes[l + kLanes / 2]);
    return Fold(half, combine);
  }
}

}  // namespace tenon::cpu

#endif  // TENON_DEVICES_CPU_KERNELS_COMMON_FOLD_H_
