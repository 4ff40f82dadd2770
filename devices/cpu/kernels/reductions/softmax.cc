// SPDX-License-Identifier: Apache-2.0
// Softmax, LogSoftmax and the cross entropies, over the last dim; the row's maximum is subtracted first.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/common/fold.h"
#include "kernels/common/math.h"
#include "kernels/common/types.h"
#include "kernels/elementwise/elementwise.h"

namespace tenon::cpu {
namespace {

using LossTypes = Types<float, double, Half, Bfloat16>;
constexpr int64_t kShortBlock = 16;      // rows of few classes
constexpr int64_t kLongBlock = 64;  // several vectors in flight

// The largest of a row. A NaN is passed over here; its own exponential makes everything that follows NaN.
template <class T, int64_t kLanes, class A = Wide<T>>
A MaxBlocks(const T* x, int64_t n) {
  A lanes[kLanes];
  for (int64_t l = 0; l < kLanes; ++l) lanes[l] = -std::numeric_limits<A>::infinity();
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) {
      const A v = x[i + l];
      lanes[l] = lanes[l] > v ? lanes[l] : v;
    }
  }
  for (int64_t l = 0; i < n; ++i, ++l) {
    const A v = x[i];
    lanes[l] = lanes[l] > v ? lanes[l] : v;
  }
  return Fold(lanes, [](A x, A y) { return x > y ? x : y; });
}
template <class T>
Wide<T> RowMax(const T* x, int64_t n) {
  return n < kLongBlock ? MaxBlocks<T, kShortBlock>(x, n) : MaxBlocks<T, kLongBlock>(x, n);
}

// out[i] = exp(x[i] - max) where out is given; gives the sum. Whole blocks, what pads the last one is thrown away.
template <class T, int64_t kLanes, class A = Wide<T>>
A ExpBlocks(const T* x, int64_t n, A max, T* out) {
  A sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    A values[kLanes];
    for (int64_t l = 0; l < kLanes; ++l) values[l] = math::Exp(static_cast<A>(x[i + l]) - max);
    for (int64_t l = 0; l < kLanes; ++l) sums[l] += values[l];
    if (out == nullptr) continue;
    for (int64_t l = 0; l < kLanes; ++l) out[i + l] = static_cast<T>(values[l]);
  }
  if (i < n) {
    const int64_t m = n - i;
    A shifted[kLanes] = {}, values[kLanes];
    for (int64_t l = 0; l < m; ++l) shifted[l] = static_cast<A>(x[i + l]) - max;
    for (int64_t l = 0; l < kLanes; ++l) values[l] = math::Exp(shifted[l]);
    for (int64_t l = 0; l < m; ++l) sums[l] += values[l];
    for (int64_t l = 0; out != nullptr && l < m; ++l) out[i + l] = static_cast<T>(values[l]);
  }
  return Fold(sums, [](A x, A y) { return x + y; });
}
template <class T>
Wide<T> RowExp(const T* x, int64_t n, Wide<T> max, T* out) {
  return n < kLongBlock ? ExpBlocks<T, kShortBlock>(x, n, max, out) : ExpBlocks<T, kLongBlock>(x, n, max, out);
}

// Rows of few classes would each fill a fraction of a vector: their exponentials are taken together.
constexpr int64_t kFewClasses = 32;
constexpr int64_t kRowsTogether = 32;

struct SoftmaxExp {
  static constexpr bool kBlocked = true;
  template <class T>
  T operator()(T x) const { return math::Exp(x); }
};

// out = exp(x - max) for rows [0, rows), rows <= kRowsTogether; max and sum of each row. out may be x.
template <class T>
void ExpRows(const T* x, int64_t rows, int64_t n, T* out, Wide<T>* max, Wide<T>* sum) {
  using A = Wide<T>;
  if (n > kFewClasses || !std::is_floating_point_v<T>) {
    for (int64_t r = 0; r < rows; ++r) {
      max[r] = RowMax<T>(x + r * n, n);
      sum[r] = RowExp<T>(x + r * n, n, max[r], out + r * n);
    }
    return;
  }
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = x + r * n;
    T* to = out + r * n;
    A largest = row[0];
    for (int64_t j = 1; j < n; ++j) largest = row[j] > largest ? static_cast<A>(row[j]) : largest;
    max[r] = largest;
    for (int64_t j = 0; j < n; ++j) to[j] = static_cast<T>(static_cast<A>(row[j]) - largest);
  }
  UnaryLoop<SoftmaxExp, T, T>(SoftmaxExp(), out, out, rows * n);
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = out + r * n;
    A total = 0;
    for (int64_t j = 0; j < n; ++j) total += static_cast<A>(row[j]);
    sum[r] = total;
  }
}

template <class T>
void SoftmaxRows(const T* x, int64_t rows, int64_t n, T* out) {
  using A = Wide<T>;
  A max[kRowsTogether], sum[kRowsTogether];
  ExpRows<T>(x, rows, n, out, max, sum);
  for (int64_t r = 0; r < rows; ++r) {
    const A scale = A(1) / sum[r];
    T* to = out + r * n;
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(static_cast<A>(to[i]) * scale);
  }
}

template <class T>
void LogSoftmaxRow(const T* x, int64_t n, T* out) {
  using A = Wide<T>;
  const A max = RowMax<T>(x, n);
  const A log_sum = std::log(RowExp<T>(x, n, max, nullptr));
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(static_cast<A>(x[i]) - max - log_sum);
}

template <bool kLog>
struct SoftmaxKernel {
  struct Plan {
    Plan(const SoftmaxKernel&, sdk::PrepareContext& c) {
      const sdk::Dims dims = sdk::DimsOf(c.input(0));
      if (dims.empty()) sdk::Fail(TENON_INVALID_ARGUMENT, "logits must have a dim; they are a scalar");
      width = dims.back();
      rows = sdk::Count(dims.first(dims.size() - 1));
      LossTypes::Dispatch(c.input(0).dtype, [&]<class T>(Tag<T>) { function = &Rows<T>; });
    }
    int64_t rows, width;
    void (*function)(const Plan&, sdk::RunContext);
  };
  void Run(const Plan& plan, sdk::RunContext c) const { plan.function(plan, c); }

  template <class T>
  static void Rows(const Plan& plan, sdk::RunContext c) {
    const T* x = c.input<T>(0);
    T* out = c.output<T>(0);
    const int64_t n = plan.width;
    if (n == 0) return;
    c.ParallelFor(plan.rows, static_cast<double>(n) + 10, [&](int64_t begin, int64_t end) {
      if constexpr (kLog) {
        for (int64_t r = begin; r < end; ++r) LogSoftmaxRow(x + r * n, n, out + r * n);
      } else {
        for (int64_t r = begin; r < end; r += kRowsTogether) {
          SoftmaxRows(x + r * n, std::min(kRowsTogether, end - r), n, out + r * n);
        }
      }
    });
  }
};

// loss[r] = sum labels * (log sum exp - logits); backprop = softmax - labels. Logits and labels broadcast.
struct CrossEntropyKernel {
  struct Plan {
    Plan(const CrossEntropyKernel&, sdk::PrepareContext& c) {
      const sdk::Dims x = sdk::DimsOf(c.input(0)), y = sdk::DimsOf(c.input(1)), out = sdk::DimsOf(c.output(1));
      if (x.size() != 2 || y.size() != 2 || out.size() != 2) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "logits of shape ", x, " and labels of shape ", y, " must be matrices");
      }
      for (size_t d = 0; d < 2; ++d) {
        if ((x[d] != out[d] && x[d] != 1) || (y[d] != out[d] && y[d] != 1)) {
          sdk::Fail(TENON_INVALID_ARGUMENT, "logits of shape ", x, " and labels of shape ", y, " do not broadcast to ",
                    out);
        }
      }
      rows = out[0], width = out[1];
      x_row = x[0] == 1 ? 0 : x[1], x_step = x[1] == 1 ? 0 : 1;
      y_row = y[0] == 1 ? 0 : y[1], y_step = y[1] == 1 ? 0 : 1;
      LossTypes::Dispatch(c.input(0).dtype, [&]<class T>(Tag<T>) { function = &Rows<T>; });
    }
    int64_t rows, width, x_row, x_step, y_row, y_step;
    void (*function)(const Plan&, sdk::RunContext);
  };
  void Run(const Plan& plan, sdk::RunContext c) const { plan.function(plan, c); }

  template <class T>
  static void Rows(const Plan& p, sdk::RunContext c) {
    using A = Wide<T>;
    const T* logits = c.input<T>(0);
    const T* labels = c.input<T>(1);
    T* loss = c.output<T>(0);
    T* backprop = c.output<T>(1);
    c.ParallelFor(p.rows, static_cast<double>(p.width) * 1.5 + 20, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* x = logits + r * p.x_row;
        const T* y = labels + r * p.y_row;
        T* back = backprop + r * p.width;
        A max, sum;
        if (p.x_step == 1) {
          max = RowMax<T>(x, p.width);
          sum = RowExp<T>(x, p.width, max, nullptr);
        } else {
          max = *x;
          sum = static_cast<A>(p.width) * math::Exp(static_cast<A>(*x) - max);
        }
        const A log_sum = std::log(sum);
        A total = 0;
        for (int64_t j0 = 0; j0 < p.width; j0 += kShortBlock) {
          const int64_t m = std::min(kShortBlock, p.width - j0);
          A shifted[kShortBlock] = {}, soft[kShortBlock];
          for (int64_t l = 0; l < m; ++l) shifted[l] = static_cast<A>(x[(j0 + l) * p.x_step]) - max;
          for (int64_t l = 0; l < kShortBlock; ++l) soft[l] = math::Exp(shifted[l]);
          for (int64_t l = 0; l < m; ++l) {
            const A label = y[(j0 + l) * p.y_step];
            // A zero label counts nothing, whatever the logit.
            total += label == 0 ? A(0) : label * (log_sum - shifted[l]);
            back[j0 + l] = static_cast<T>(soft[l] / sum - label);
          }
        }
        loss[r] = static_cast<T>(total);
      }
    });
  }
};

struct SparseCrossEntropyKernel {
  struct Plan {
    Plan(const SparseCrossEntropyKernel&, sdk::PrepareContext& c) {
      const sdk::Dims x = sdk::DimsOf(c.input(0)), y = sdk::DimsOf(c.input(1));
      if (x.size() != 2 || y.size() != 1 || x[0] != y[0]) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "logits of shape ", x, " and labels of shape ", y,
                  "; they must be [batch, classes] and [batch]");
      }
      if (x[1] == 0 && x[0] != 0) sdk::Fail(TENON_INVALID_ARGUMENT, "Must have at least one class; logits are ", x);
      rows = x[0], width = x[1];
      LossTypes::Dispatch(c.input(0).dtype, [&]<class T>(Tag<T>) { function = &Rows<T>; });
    }
    int64_t rows, width;
    void (*function)(const Plan&, sdk::RunContext);
  };
  void Run(const Plan& plan, sdk::RunContext c) const { plan.function(plan, c); }

  template <class T>
  static void Rows(const Plan& p, sdk::RunContext c) {
    using A = Wide<T>;
    const T* logits = c.input<T>(0);
    const tenon_tensor_view& labels = c.input_view(1);
    T* loss = c.output<T>(0);
    T* backprop = c.output<T>(1);
    const void* label_data = sdk::Data<void>(labels);
    for (int64_t r = 0; r < p.rows; ++r) {
      const int64_t label = IndexAt(label_data, labels.dtype, r);
      if (label < 0 || label >= p.width) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "Received a label value of ", label,
                  " which is outside the valid range of [0, ", p.width, "); it is label ", r);
      }
    }
    c.ParallelFor(p.rows, static_cast<double>(p.width) + 20, [&](int64_t begin, int64_t end) {
      A max[kRowsTogether], sum[kRowsTogether], at_label[kRowsTogether];
      for (int64_t r0 = begin; r0 < end; r0 += kRowsTogether) {
        const int64_t rows = std::min(kRowsTogether, end - r0);
        // Before backprop, which may be the logits' memory.
        for (int64_t r = 0; r < rows; ++r) {
          at_label[r] = logits[(r0 + r) * p.width + IndexAt(label_data, labels.dtype, r0 + r)];
        }
        ExpRows<T>(logits + r0 * p.width, rows, p.width, backprop + r0 * p.width, max, sum);
        for (int64_t r = 0; r < rows; ++r) {
          T* back = backprop + (r0 + r) * p.width;
          T* at = back + IndexAt(label_data, labels.dtype, r0 + r);
          loss[r0 + r] = static_cast<T>(std::log(sum[r]) - (at_label[r] - max[r]));
          const A scale = A(1) / sum[r];
          for (int64_t j = 0; j < p.width; ++j) back[j] = static_cast<T>(static_cast<A>(back[j]) * scale);
          *at = static_cast<T>(static_cast<A>(*at) - A(1));
        }
      }
    });
  }
};

constexpr sdk::Traits kInPlace = {.constraints = sdk::Constraints<LossTypes::Constraint<"T">>::list,
                                  .in_place = kInPlaceFirst};
constexpr tenon_in_place kInPlaceBackprop[] = {{0, 1}};

}  // namespace

TENON_CPU_KERNEL(Softmax) = CpuKernel<SoftmaxKernel<false>>("Softmax", kInPlace);
TENON_CPU_KERNEL(LogSoftmax) = CpuKernel<SoftmaxKernel<true>>("LogSoftmax", kInPlace);
TENON_CPU_KERNEL(SoftmaxCrossEntropyWithLogits) = CpuKernel<CrossEntropyKernel>(
    "SoftmaxCrossEntropyWithLogits", {.constraints = sdk::Constraints<LossTypes::Constraint<"T">>::list});
TENON_CPU_KERNEL(SparseSoftmaxCrossEntropyWithLogits) = CpuKernel<SparseCrossEntropyKernel>(
    "SparseSoftmaxCrossEntropyWithLogits",
    {.constraints = sdk::Constraints<LossTypes::Constraint<"T">, Indices::Constraint<"Tlabels">>::list,
     .in_place = kInPlaceBackprop});

}  // namespace tenon::cpu
