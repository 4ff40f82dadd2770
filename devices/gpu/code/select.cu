// SPDX-License-Identifier: Apache-2.0
#include "code/select.h"

#include "code/each.h"

namespace tenon::gpu {

template <class T>
TENON_GPU_FUNCTION void Select(const SelectParams& p) {
  const auto* const condition = static_cast<const uint8_t*>(p.of[0]);
  ForEach(static_cast<T*>(p.out), p.total, [&]<class Index>(Index i, int64_t* to) {
    *to = static_cast<int64_t>(i);
    const int64_t column = TakeDim(&i, p.inner);
    int64_t at[3] = {column * p.steps[0], column * p.steps[1], column * p.steps[2]};
    TENON_GPU_ROLLED for (int d = p.rank - 1; d >= 0; --d) {
      const int64_t index = TakeDim(&i, p.dims[d]);
      for (int k = 0; k < 3; ++k) at[k] += index * p.strides[k][d];
    }
    return condition[at[0]] != 0 ? static_cast<const T*>(p.of[1])[at[1]] : static_cast<const T*>(p.of[2])[at[2]];
  });
}

template <class T>
TENON_GPU_FUNCTION void OneHot(const OneHotParams& p) {
  const T on = *static_cast<const T*>(p.on), off = *static_cast<const T*>(p.off);
  ForEach(static_cast<T*>(p.out), p.total, [&]<class Index>(Index i, int64_t* to) {
    *to = static_cast<int64_t>(i);
    const int64_t column = TakeDim(&i, p.inner), place = TakeDim(&i, p.depth);
    return IndexOf(p.indices, static_cast<int64_t>(i) * p.inner.size + column) == place ? on : off;
  });
}

// The output may be the input's memory.
template <class T>
TENON_GPU_FUNCTION void Band(const BandParams& p) {
  ForEach(static_cast<T*>(p.out), p.total, [&]<class Index>(Index i, int64_t* to) {
    *to = static_cast<int64_t>(i);
    const int64_t column = TakeDim(&i, p.columns), row = TakeDim(&i, p.rows);
    const bool kept = (p.lower < 0 || row - column <= p.lower) && (p.upper < 0 || column - row <= p.upper);
    return kept ? static_cast<const T*>(p.x)[*to] : T{};
  });
}

#define TENON_GPU_SELECTS(bytes, T)                          \
  TENON_GPU_KERNEL(Select_##bytes, SelectParams, Select<T>)  \
  TENON_GPU_KERNEL(OneHot_##bytes, OneHotParams, OneHot<T>)  \
  TENON_GPU_KERNEL(Band_##bytes, BandParams, Band<T>)
TENON_GPU_SELECTS(1, uint8_t)
TENON_GPU_SELECTS(2, uint16_t)
TENON_GPU_SELECTS(4, uint32_t)
TENON_GPU_SELECTS(8, uint64_t)
TENON_GPU_SELECTS(16, sdk::Bytes16)

}  // namespace tenon::gpu
