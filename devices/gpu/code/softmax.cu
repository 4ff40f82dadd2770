// SPDX-License-Identifier: Apache-2.0
#include "code/softmax.h"

#include <cmath>
#include <limits>

#include "code/group.h"

namespace tenon::gpu {

// The elements of a row that one thread of `lanes` sees: every lanes-th. kHold: few enough to be read once.
template <class T, bool kHold>
struct RowShare {
  using A = Wide<T>;
  TENON_GPU_FUNCTION RowShare(const T* row, int64_t row_step, int64_t row_width, uint32_t thread, uint32_t threads)
      : x(row), step(row_step), width(row_width), lane(thread), lanes(threads) {
    if constexpr (kHold) {
      ForEach([&](int k, int64_t j) { held[k] = static_cast<A>(x[j * step]); });
    }
  }
  // function(k, j): j is the element's place in the row, k in this share.
  template <class Function>
  TENON_GPU_FUNCTION void ForEach(const Function& function) const {
    if constexpr (kHold) {
      for (int k = 0; k < kHeldOfRow; ++k) {
        const int64_t j = lane + static_cast<int64_t>(k) * lanes;
        if (j < width) function(k, j);
      }
    } else {
      for (int64_t j = lane; j < width; j += lanes) function(0, j);
    }
  }
  TENON_GPU_FUNCTION A At(int k, int64_t j) const {
    if constexpr (kHold) {
      return held[k];
    } else {
      return static_cast<A>(x[j * step]);
    }
  }
  // Of the whole row: its largest element and the sum of exp(x - largest). A NaN makes the sum NaN. All threads come here.
  TENON_GPU_FUNCTION void Sum() {
    constexpr A kLowest = -std::numeric_limits<A>::infinity();
    A most = kLowest;
    ForEach([&](int k, int64_t j) { most = At(k, j) > most ? At(k, j) : most; });
    largest = GroupReduce(most, kLowest, lanes, [](A a, A b) { return a > b ? a : b; });
    A part = 0;
    ForEach([&](int k, int64_t j) { part += std::exp(At(k, j) - largest); });
    sum = GroupReduce(part, A(0), lanes, [](A a, A b) { return a + b; });
  }
  const T* x;
  int64_t step, width;
  uint32_t lane, lanes;
  A largest, sum;
  A held[kHold ? kHeldOfRow : 1] = {};
};

template <class T, bool kLog, bool kHold>
TENON_GPU_FUNCTION void SoftmaxRows(const SoftmaxParams& p) {
  using A = Wide<T>;
  ForEachItem(p.rows, p.lanes, [&](int64_t row, uint32_t lane, bool valid) {
    RowShare<T, kHold> share(static_cast<const T*>(p.x) + (valid ? row : 0) * p.width, 1, valid ? p.width : 0, lane, p.lanes);
    share.Sum();
    T* out = static_cast<T*>(p.out) + row * p.width;
    const A scale = A(1) / share.sum, log_sum = kLog ? std::log(share.sum) : A(0);
    share.ForEach([&](int k, int64_t j) {
      const A shifted = share.At(k, j) - share.largest;
      out[j] = static_cast<T>(kLog ? shifted - log_sum : std::exp(shifted) * scale);
    });
  });
}
template <class T, bool kLog>
TENON_GPU_FUNCTION void Softmax(const SoftmaxParams& p) {
  if (p.width <= static_cast<int64_t>(p.lanes) * kHeldOfRow) {
    SoftmaxRows<T, kLog, true>(p);
  } else {
    SoftmaxRows<T, kLog, false>(p);
  }
}

// loss = sum labels * (log sum exp - logits); backprop = softmax - labels.
template <class T, bool kHold>
TENON_GPU_FUNCTION void CrossEntropyRows(const CrossEntropyParams& p) {
  using A = Wide<T>;
  ForEachItem(p.rows, p.lanes, [&](int64_t row, uint32_t lane, bool valid) {
    const int64_t r = valid ? row : 0;
    RowShare<T, kHold> share(static_cast<const T*>(p.x) + r * p.x_row, p.x_step, valid ? p.width : 0, lane, p.lanes);
    share.Sum();
    const T* labels = static_cast<const T*>(p.labels) + r * p.y_row;
    T* back = static_cast<T*>(p.backprop) + r * p.width;
    const A log_sum = std::log(share.sum);
    A loss = 0;
    share.ForEach([&](int k, int64_t j) {
      const A label = static_cast<A>(labels[j * p.y_step]), shifted = share.At(k, j) - share.largest;
      // A zero label counts nothing, whatever the logit.
      if (label != 0) loss += label * (log_sum - shifted);
      back[j] = static_cast<T>(std::exp(shifted) / share.sum - label);
    });
    loss = GroupReduce(loss, A(0), p.lanes, [](A a, A b) { return a + b; });
    if (valid && lane == 0) static_cast<T*>(p.loss)[row] = static_cast<T>(loss);
  });
}
template <class T>
TENON_GPU_FUNCTION void CrossEntropy(const CrossEntropyParams& p) {
  if (p.width <= static_cast<int64_t>(p.lanes) * kHeldOfRow) {
    CrossEntropyRows<T, true>(p);
  } else {
    CrossEntropyRows<T, false>(p);
  }
}

TENON_GPU_FUNCTION int64_t IntegerAt(const void* data, int32_t wide, int64_t i) {
  return wide != 0 ? static_cast<const int64_t*>(data)[i] : static_cast<const int32_t*>(data)[i];
}

// The backprop may be the logits' memory: a thread reads what it needs of its elements before it writes them.
template <class T, bool kHold>
TENON_GPU_FUNCTION void SparseCrossEntropyRows(const SparseCrossEntropyParams& p) {
  using A = Wide<T>;
  ForEachItem(p.rows, p.lanes, [&](int64_t row, uint32_t lane, bool valid) {
    const int64_t r = valid ? row : 0;
    const int64_t label = valid ? IntegerAt(p.labels, p.wide_labels, row) : 0;
    RowShare<T, kHold> share(static_cast<const T*>(p.x) + r * p.width, 1, valid ? p.width : 0, lane, p.lanes);
    share.Sum();
    T* back = static_cast<T*>(p.backprop) + r * p.width;
    T* loss = static_cast<T*>(p.loss) + r;
    const A scale = A(1) / share.sum;
    if (valid && lane == 0 && (label < 0 || label >= p.width)) {
      Report(p.site, row, label, p.width);
      *loss = static_cast<T>(0.0f);
    }
    share.ForEach([&](int k, int64_t j) {
      const A shifted = share.At(k, j) - share.largest;
      const auto soft = static_cast<T>(std::exp(shifted) * scale);
      if (j == label) *loss = static_cast<T>(std::log(share.sum) - shifted);
      back[j] = j == label ? static_cast<T>(static_cast<A>(soft) - A(1)) : soft;
    });
  });
}
template <class T>
TENON_GPU_FUNCTION void SparseCrossEntropy(const SparseCrossEntropyParams& p) {
  if (p.width <= static_cast<int64_t>(p.lanes) * kHeldOfRow) {
    SparseCrossEntropyRows<T, true>(p);
  } else {
    SparseCrossEntropyRows<T, false>(p);
  }
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
