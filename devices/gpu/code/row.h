// SPDX-License-Identifier: Apache-2.0
// Rows that groups of threads walk along by packs of 16 bytes, wherever in memory a row begins.
//
// The packs are those of the row that is written: they begin at multiples of 16 bytes, so the first and the last may
// stick out of the row. A row that is read is loaded by packs where its own begin likewise, else element by element.
// Places outside a row have a value of the caller's.
#ifndef TENON_DEVICES_GPU_CODE_ROW_H_
#define TENON_DEVICES_GPU_CODE_ROW_H_

#include <type_traits>

#include "code/group.h"
#include "code/held.h"
#include "code/pack.h"

namespace tenon::gpu {

template <class T>
class RowPacks {
 public:
  static constexpr int kCount = Pack<T>::kCount;
  TENON_GPU_FUNCTION RowPacks(const T* written, int64_t row_width)
      : width(row_width), shift(ShiftOf(written)), packs(width == 0 ? 0 : (width + shift + kCount - 1) / kCount) {}
  // The most that a row has, wherever it begins; all of them begin where the first one does if their width is even.
  static TENON_GPU_FUNCTION int64_t Most(const T* first_row, int64_t width) {
    const int64_t shift = width % kCount == 0 ? ShiftOf(first_row) : kCount - 1;
    return (width + shift + kCount - 1) / kCount;
  }
  // Of the first element of a pack in its row.
  TENON_GPU_FUNCTION int64_t First(int64_t pack) const { return pack * kCount - shift; }
  // Elements lie `step` apart: 1, or 0 for one that is repeated.
  TENON_GPU_FUNCTION Pack<T> Load(const T* row, int64_t step, int64_t first, T outside) const {
    if (step == 1 && IsWhole(first) && ShiftOf(row) == shift) return *reinterpret_cast<const Pack<T>*>(row + first);
    Pack<T> pack;
    TENON_GPU_UNROLL_ALL
    for (int k = 0; k < kCount; ++k) pack.at[k] = Has(first + k) ? row[(first + k) * step] : outside;
    return pack;
  }
  TENON_GPU_FUNCTION void Store(T* row, int64_t first, const Pack<T>& pack) const {
    if (IsWhole(first)) {
      *reinterpret_cast<Pack<T>*>(row + first) = pack;
      return;
    }
    TENON_GPU_UNROLL_ALL
    for (int k = 0; k < kCount; ++k) {
      if (Has(first + k)) row[first + k] = pack.at[k];
    }
  }
  TENON_GPU_FUNCTION bool Has(int64_t element) const { return element >= 0 && element < width; }

  const int64_t width;
  const int32_t shift;
  const int64_t packs;

 private:
  static TENON_GPU_FUNCTION int32_t ShiftOf(const T* row) {
    return static_cast<int32_t>(reinterpret_cast<uintptr_t>(row) / sizeof(T) % kCount);
  }
  TENON_GPU_FUNCTION bool IsWhole(int64_t first) const { return first >= 0 && first + kCount <= width; }
};

// The packs of a row that one thread of `lanes` sees: every lanes-th. kHeld: how many it keeps, where that is all of
// them; 0: they are read again.
template <class T, int kHeld>
class RowShare {
 public:
  TENON_GPU_FUNCTION RowShare(const RowPacks<T>& packs_of_row, const T* row, int64_t row_step, uint32_t thread,
                              uint32_t threads, T value_outside)
      : packs(packs_of_row), lane(thread), lanes(threads), x(row), step(row_step), outside(value_outside) {
    if constexpr (kHeld > 0) {
      TENON_GPU_UNROLL_ALL
      for (int n = 0; n < kHeld; ++n) {
        if (Number(n) < packs.packs) held[n] = Load(Number(n));
      }
    }
  }
  // function(first, pack): the place of the pack's first element in the row, and its elements.
  template <class Function>
  TENON_GPU_FUNCTION void ForEach(const Function& function) const {
    if constexpr (kHeld > 0) {
      TENON_GPU_UNROLL_ALL
      for (int n = 0; n < kHeld; ++n) {
        if (Number(n) < packs.packs) function(packs.First(Number(n)), held[n]);
      }
    } else {
      TENON_GPU_UNROLL(1)
      for (int64_t n = lane; n < packs.packs; n += lanes) function(packs.First(n), Load(n));
    }
  }
  const RowPacks<T> packs;
  const uint32_t lane, lanes;

 private:
  TENON_GPU_FUNCTION int64_t Number(int n) const { return lane + static_cast<int64_t>(n) * lanes; }
  TENON_GPU_FUNCTION Pack<T> Load(int64_t number) const { return packs.Load(x, step, packs.First(number), outside); }
  const T* x;
  const int64_t step;
  const T outside;
  Pack<T> held[kHeld > 0 ? kHeld : 1];
};

// Calls work(std::integral_constant<int, kHeld>()) for rows that are written from `out` on.
template <class T, class Work>
TENON_GPU_FUNCTION void WithHeld(const T* out, int64_t width, uint32_t lanes, const Work& work) {
  const int64_t most = RowPacks<T>::Most(out, width);
  if (most <= static_cast<int64_t>(lanes) * kFewHeld) {
    work(std::integral_constant<int, kFewHeld>());
  } else if (most <= static_cast<int64_t>(lanes) * kMostHeld) {
    work(std::integral_constant<int, kMostHeld>());
  } else {
    work(std::integral_constant<int, 0>());
  }
}

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_ROW_H_
