// SPDX-License-Identifier: Apache-2.0
// What a segment's sum is divided by, on every device.
#ifndef TENON_SDK_KERNEL_SEGMENT_H_
#define TENON_SDK_KERNEL_SEGMENT_H_

#include <cmath>
#include <cstdint>

namespace tenon::sdk {

enum class Over : uint32_t { kOne, kCount, kRoot };

// Of a segment of `count` rows.
template <Over kOver, class A>
constexpr A Divisor(int64_t count) {
  if constexpr (kOver == Over::kCount) return static_cast<A>(count);
  if constexpr (kOver == Over::kRoot) return std::sqrt(static_cast<A>(count));
  return A(1);
}

}  // namespace tenon::sdk

#endif  // TENON_SDK_KERNEL_SEGMENT_H_
