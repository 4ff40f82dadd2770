// SPDX-License-Identifier: Apache-2.0
// Arithmetic on sizes that come from outside: every product of dims and every byte count goes through here.
#ifndef TENON_CORE_BASE_CHECKED_H_
#define TENON_CORE_BASE_CHECKED_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace tenon {

// a * b and a + b; false when the result does not fit.
[[nodiscard]] inline bool CheckedMultiply(int64_t a, int64_t b, int64_t* out) {
  return !__builtin_mul_overflow(a, b, out);
}
[[nodiscard]] inline bool CheckedAdd(int64_t a, int64_t b, int64_t* out) { return !__builtin_add_overflow(a, b, out); }

// Whether there is an element `index` in a list of `size`.
template <std::integral Index>
constexpr bool Within(Index index, size_t size) {
  return index >= 0 && std::cmp_less(index, size);
}

inline uint64_t RoundUp(uint64_t value, uint64_t alignment) { return (value + alignment - 1) / alignment * alignment; }

}  // namespace tenon

#endif  // TENON_CORE_BASE_CHECKED_H_
