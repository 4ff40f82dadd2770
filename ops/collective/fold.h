// SPDX-License-Identifier: Apache-2.0
// Merging of members' elements: source after source, block by block, so that each is read once and the compiler sees
// plain loops.
#ifndef TENON_OPS_COLLECTIVE_FOLD_H_
#define TENON_OPS_COLLECTIVE_FOLD_H_

#include <algorithm>
#include <cstdint>

#include "tenon/sdk/device/collective.h"
#include "tenon/sdk/kernel/element.h"
#include "tenon/extras/kernel/elementwise.h"
#include "tenon/sdk/kernel/half.h"

namespace tenon::ops {

// What is reduced: TensorFlow's T of the reductions.
using CollectiveElements = sdk::Types<float, double, sdk::Half, sdk::Bfloat16, int32_t, int64_t>;

// function(x, y) as numbers of T; halves are rounded after each step, as a device does it.
template <class T, class Op>
T Merged(const Op& op, T x, T y) {
  using W = sdk::Wide<T>;
  return static_cast<T>(op(static_cast<W>(x), static_cast<W>(y)));
}

// out[i] of [begin, end) = source(0)[i] ... source(count - 1)[i], merged in that order, then divided by `divisor`
// unless it is 0. out may be source(0).
template <class T, class Source, class Op>
void Fold(size_t count, const Source& source, const Op& op, int64_t divisor, int64_t begin, int64_t end, T* out) {
  constexpr int64_t kBlock = 4096 / sizeof(T);  // stays in the nearest cache
  const auto by = static_cast<T>(static_cast<sdk::Wide<T>>(divisor));
  for (int64_t at = begin; at < end; at += kBlock) {
    const int64_t stop = std::min(end, at + kBlock);
    const T* const first = source(0);
    if (count == 1) {
      std::copy(first + at, first + stop, out + at);
    } else {
      const T* const second = source(1);
      for (int64_t i = at; i < stop; ++i) out[i] = Merged(op, first[i], second[i]);
    }
    for (size_t k = 2; k < count; ++k) {
      const T* const next = source(k);
      for (int64_t i = at; i < stop; ++i) out[i] = Merged(op, out[i], next[i]);
    }
    if (divisor == 0) continue;
    for (int64_t i = at; i < stop; ++i) out[i] = Merged(sdk::DivOp(), out[i], by);
  }
}

// function(op) with what merges two numbers.
template <class Function>
void WithMerge(sdk::CollectiveMerge merge, Function&& function) {
  switch (merge) {
    case sdk::CollectiveMerge::kAdd: return function(sdk::AddOp());
    case sdk::CollectiveMerge::kMultiply: return function(sdk::MulOp());
    case sdk::CollectiveMerge::kMinimum: return function(sdk::MinimumOp());
    case sdk::CollectiveMerge::kMaximum: return function(sdk::MaximumOp());
  }
}

}  // namespace tenon::ops

#endif  // TENON_OPS_COLLECTIVE_FOLD_H_
