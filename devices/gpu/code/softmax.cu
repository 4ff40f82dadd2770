// SPDX-License-Identifier: Apache-2.0
#include "code/softmax.h"

#include <cmath>
#include <limits>

#include "code/row.h"

namespace tenon::gpu {

// Of a row: its largest element and the sum of exp(x - largest). A NaN makes the sum NaN.
template <class A>
struct RowSum {
  A largest, sum;
};
template <class A>
constexpr A kLowest = -std::numeric_limits<A>::infinity();
template <class A>
TENON_GPU_FUNCTION A Larger(A a, A b) { return b > a ? b : a; }  // a is no NaN
template <class T>
TENON_GPU_FUNCTION Wide<T> MostOf(const Pack<T>& pack) {
  Wide<T> most = kLowest<Wide<T>>;
  TENON_GPU_UNROLL_ALL
  for (int k = 0; k < Pack<T>::kCount; ++k) most = Larger(most, static_cast<Wide<T>>(pack.at[k]));
  return most;
}
template <class T>
TENON_GPU_FUNCTION Wide<T> SumOf(const Pack<T>& pack, Wide<T> most) {
  Wide<T> sum = 0;
  TENON_GPU_UNROLL_ALL
  for (int k = 0; k < Pack<T>::kCount; ++k) sum += std::exp(static_cast<Wide<T>>(pack.at[k]) - most);
  return sum;
}
// All threads of a block come here.
template <class T, int kHeld>
TENON_GPU_FUNCTION RowSum<Wide<T>> SumOfRow(const RowShare<T, kHeld>& share) {
  using A = Wide<T>;
  const auto larger = [](A a, A b) { return Larger(a, b); };
  A part = 0, most = kLowest<A>, largest;
  if constexpr (kHeld > 0) {
    share.ForEach([&](int64_t, const Pack<T>& pack) { most = Larger(most, MostOf(pack)); });
    largest = GroupReduce(most, kLowest<A>, share.lanes, larger);
    share.ForEach([&](int64_t, const Pack<T>& pack) { part += SumOf(pack, largest); });
  } else {
    // In one walk: what was summed is brought down when a larger element comes.
    share.ForEach([&](int64_t, const Pack<T>& pack) {
      const A now = Larger(most, MostOf(pack));
      if (now > most) part *= std::exp(most - now);
      most = now;
      part += SumOf(pack, most == kLowest<A> ? A(0) : most);
    });
    largest = GroupReduce(most, kLowest<A>, share.lanes, larger);
    part *= std::exp(most - largest);
  }
  return {largest, GroupReduce(part, A(0), share.lanes, [](A a, A b) { return a + b; })};
}

template <class T, bool kLog>
TENON_GPU_FUNCTION void Softmax(const SoftmaxParams& p) {
  using A = Wide<T>;
  WithHeld(static_cast<const T*>(p.out), p.width, p.lanes, [&](auto held) {
    constexpr int kHeld = decltype(held)::value;
    ForEachItem(p.rows, p.lanes, [&](int64_t row, uint32_t lane, bool valid) {
      const int64_t start = (valid ? row : 0) * p.width;
      T* out = static_cast<T*>(p.out) + start;
      const RowShare<T, kHeld> share(RowPacks<T>(out, valid ? p.width : 0), static_cast<const T*>(p.x) + start, 1, lane,
                                     p.lanes, static_cast<T>(kLowest<A>));
      const RowSum<A> row_sum = SumOfRow(share);
      const A scale = A(1) / row_sum.sum, log_sum = kLog ? std::log(row_sum.sum) : A(0);
      share.ForEach([&](int64_t first, const Pack<T>& pack) {
        Pack<T> to;
        TENON_GPU_UNROLL_ALL
        for (int k = 0; k < RowPacks<T>::kCount; ++k) {
          const A shifted = static_cast<A>(pack.at[k]) - row_sum.largest;
          to.at[k] = static_cast<T>(kLog ? shifted - log_sum : std::exp(shifted) * scale);
        }
        share.packs.Store(out, first, to);
      });
    });
  });
}

// loss = sum labels * (log sum exp - logits); backprop = softmax - labels.
template <class T>
TENON_GPU_FUNCTION void CrossEntropy(const CrossEntropyParams& p) {
  using A = Wide<T>;
  WithHeld(static_cast<const T*>(p.backprop), p.width, p.lanes, [&](auto held) {
    constexpr int kHeld = decltype(held)::value;
    ForEachItem(p.rows, p.lanes, [&](int64_t row, uint32_t lane, bool valid) {
      const int64_t r = valid ? row : 0;
      T* back = static_cast<T*>(p.backprop) + r * p.width;
      const RowShare<T, kHeld> share(RowPacks<T>(back, valid ? p.width : 0), static_cast<const T*>(p.x) + r * p.x_row,
                                     p.x_step, lane, p.lanes, static_cast<T>(kLowest<A>));
      const RowSum<A> row_sum = SumOfRow(share);
      const T* labels = static_cast<const T*>(p.labels) + r * p.y_row;
      const A log_sum = std::log(row_sum.sum);
      A loss = 0;
      share.ForEach([&](int64_t first, const Pack<T>& pack) {
        const Pack<T> wanted = share.packs.Load(labels, p.y_step, first, static_cast<T>(0.0f));
        Pack<T> to;
        TENON_GPU_UNROLL_ALL
        for (int k = 0; k < RowPacks<T>::kCount; ++k) {
          const A label = static_cast<A>(wanted.at[k]), shifted = static_cast<A>(pack.at[k]) - row_sum.largest;
          // A zero label counts nothing, whatever the logit.
          if (label != 0) loss += label * (log_sum - shifted);
          to.at[k] = static_cast<T>(std::exp(shifted) / row_sum.sum - label);
        }
        share.packs.Store(back, first, to);
      });
      loss = GroupReduce(loss, A(0), p.lanes, [](A a, A b) { return a + b; });
      if (valid && lane == 0) static_cast<T*>(p.loss)[row] = static_cast<T>(loss);
    });
  });
}

TENON_GPU_FUNCTION int64_t IntegerAt(const void* data, int32_t wide, int64_t i) {
  return wide != 0 ? static_cast<const int64_t*>(data)[i] : static_cast<const int32_t*>(data)[i];
}

// The backprop may be the logits' memory: a thread reads what it needs of its elements before it writes them.
template <class T>
TENON_GPU_FUNCTION void SparseCrossEntropy(const SparseCrossEntropyParams& p) {
  using A = Wide<T>;
  WithHeld(static_cast<const T*>(p.backprop), p.width, p.lanes, [&](auto held) {
    constexpr int kHeld = decltype(held)::value;
    ForEachItem(p.rows, p.lanes, [&](int64_t row, uint32_t lane, bool valid) {
      const int64_t r = valid ? row : 0, start = r * p.width;
      const int64_t label = valid ? IntegerAt(p.labels, p.wide_labels, row) : 0;
      T* back = static_cast<T*>(p.backprop) + start;
      T* loss = static_cast<T*>(p.loss) + r;
      const RowShare<T, kHeld> share(RowPacks<T>(back, valid ? p.width : 0), static_cast<const T*>(p.x) + start, 1,
                                     lane, p.lanes, static_cast<T>(kLowest<A>));
      const RowSum<A> row_sum = SumOfRow(share);
      const A scale = A(1) / row_sum.sum;
      if (valid && lane == 0 && (label < 0 || label >= p.width)) {
        Report(p.site, row, label, p.width);
        *loss = static_cast<T>(0.0f);
      }
      share.ForEach([&](int64_t first, const Pack<T>& pack) {
        // Not subtracted where that might overflow: a label may be any number.
        const int32_t at = label >= first && label < first + RowPacks<T>::kCount && share.packs.Has(label)
                               ? static_cast<int32_t>(label - first)
                               : -1;
        Pack<T> to;
        TENON_GPU_UNROLL_ALL
        for (int k = 0; k < RowPacks<T>::kCount; ++k) {
          const A shifted = static_cast<A>(pack.at[k]) - row_sum.largest;
          const auto soft = static_cast<T>(std::exp(shifted) * scale);
          if (k == at) *loss = static_cast<T>(std::log(row_sum.sum) - shifted);
          to.at[k] = k == at ? static_cast<T>(static_cast<A>(soft) - A(1)) : soft;
        }
        share.packs.Store(back, first, to);
      });
    });
  });
}

// Whether the target's prediction is among the k largest; ties count as in, what is not finite as out.
TENON_GPU_FUNCTION void InTopKRows(const InTopKParams& p) {
  const int64_t k = IntegerAt(p.k, p.wide, 0);
  ForEachItem(p.rows, p.lanes, [&](int64_t row, uint32_t lane, bool valid) {
    const int64_t target = valid ? IntegerAt(p.targets, p.wide, row) : -1;
    const bool inside = target >= 0 && target < p.width;
    const float* x = p.predictions + (valid ? row : 0) * p.width;
    const float wanted = inside ? x[target] : 0.0f;
    uint32_t infinite = 0;
    int64_t larger = 0;
    for (int64_t j = lane; inside && j < p.width; j += p.lanes) {
      infinite |= x[j] - x[j] == 0.0f ? 0u : 1u;
      larger += x[j] > wanted ? 1 : 0;
    }
    infinite = GroupReduce(infinite, 0u, p.lanes, [](uint32_t a, uint32_t b) { return a | b; });
    larger = GroupReduce(larger, int64_t{0}, p.lanes, [](int64_t a, int64_t b) { return a + b; });
    if (valid && lane == 0) p.out[row] = inside && infinite == 0 && larger < k;
  });
}

#define TENON_GPU_SOFTMAX(suffix, T)                                                                       \
  TENON_GPU_BLOCK_KERNEL(Softmax_##suffix, SoftmaxParams, Softmax<T, false>)                               \
  TENON_GPU_BLOCK_KERNEL(LogSoftmax_##suffix, SoftmaxParams, Softmax<T, true>)                             \
  TENON_GPU_BLOCK_KERNEL(CrossEntropy_##suffix, CrossEntropyParams, CrossEntropy<T>)                       \
  TENON_GPU_BLOCK_KERNEL(SparseCrossEntropy_##suffix, SparseCrossEntropyParams, SparseCrossEntropy<T>)
TENON_GPU_SOFTMAX(f32, float)
TENON_GPU_SOFTMAX(f64, double)
TENON_GPU_SOFTMAX(f16, Half)
TENON_GPU_SOFTMAX(bf16, Bfloat16)
TENON_GPU_BLOCK_KERNEL(InTopK, InTopKParams, InTopKRows)

}  // namespace tenon::gpu
