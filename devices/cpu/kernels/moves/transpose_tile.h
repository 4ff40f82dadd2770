// SPDX-License-Identifier: Apache-2.0
// Transposing a small square of elements in registers.
//
// kTransposeTile<T> rows of as many elements, each row one vector, are interleaved pairwise: row i with row i + half,
// again and again. After log2(rows) turns the rows are the columns. Elements are only moved: T is an unsigned number.
#ifndef TENON_DEVICES_CPU_KERNELS_MOVES_TRANSPOSE_TILE_H_
#define TENON_DEVICES_CPU_KERNELS_MOVES_TRANSPOSE_TILE_H_

#include <cstdint>
#include <utility>

#include "kernels/common/types.h"
#include "kernels/common/vector.h"

namespace tenon::cpu {

// No more than 16 rows, which are the registers that every level has; 0 of elements that have no tile.
template <class T>
inline constexpr int kTransposeTile = kVectorBytes / static_cast<int>(sizeof(T)) < 16
                                          ? kVectorBytes / static_cast<int>(sizeof(T))
                                          : 16;
template <>
inline constexpr int kTransposeTile<Bytes16> = 0;

template <class T>
struct TransposeTile {
  static constexpr int kRows = kTransposeTile<T>;
  using Vector = VectorOf<T, kRows>;
  using Row = typename Vector::Type;

  // to[c * to_stride + r] = from[r * from_stride + c].
  static void Run(const T* from, int64_t from_stride, T* to, int64_t to_stride) {
    Row rows[kRows];
    for (int r = 0; r < kRows; ++r) rows[r] = Vector::Load(from + r * from_stride);
    for (int turn = 1; turn < kRows; turn *= 2) {
      Row next[kRows];
      for (int r = 0; r < kRows / 2; ++r)
        Interleave(rows[r], rows[r + kRows / 2], &next[2 * r], std::make_integer_sequence<int, kRows>());
      for (int r = 0; r < kRows; ++r) rows[r] = next[r];
    }
    for (int r = 0; r < kRows; ++r) Vector::Store(to + r * to_stride, rows[r]);
  }

 private:
  // a0 b0 a1 b1 ... of the first halves into out[0], of the second halves into out[1].
  template <int... kIndex>
  static void Interleave(Row a, Row b, Row* out, std::integer_sequence<int, kIndex...>) {
    out[0] = __builtin_shufflevector(a, b, (kIndex / 2 + kIndex % 2 * kRows)...);
    out[1] = __builtin_shufflevector(a, b, (kRows / 2 + kIndex / 2 + kIndex % 2 * kRows)...);
  }
};

}  // namespace tenon::cpu

#endif  // TENON_DEVICES_CPU_KERNELS_MOVES_TRANSPOSE_TILE_H_
