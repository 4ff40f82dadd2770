// SPDX-License-Identifier: Apache-2.0
// Softmax, LogSoftmax and the cross entropies on the vector unit, over the last dim; the row's maximum is subtracted
// first.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/kernel.h"

namespace tenon::tpu_sim {
namespace {

using sdk::Dims;
constexpr int64_t kOperations = 12;  // of the vector unit for one class

// One row in the type that it is computed in: maximum and the sum of exponentials.
template <class A>
struct Row {
  // Element j is x[j * step].
  template <class T>
  Row(const T* x, int64_t n, int64_t step, std::vector<A>* exponentials) {
    largest = x[0];
    for (int64_t j = 1; j < n; ++j) largest = std::max(largest, static_cast<A>(x[j * step]));
    exponentials->resize(static_cast<size_t>(n));
    for (int64_t j = 0; j < n; ++j) {
      const A value = std::exp(static_cast<A>(x[j * step]) - largest);
      (*exponentials)[static_cast<size_t>(j)] = value;
      sum += value;
    }
  }
  A largest, sum = 0;
};

template <bool kLog>
struct SoftmaxKernel {
  struct Plan {
    Plan(const SoftmaxKernel&, Shapes& s) {
      const Dims dims = s.in(0);
      if (dims.empty()) sdk::Fail(TENON_INVALID_ARGUMENT, "logits must have a dim; they are a scalar");
      width = dims.back();
      rows = sdk::Count(dims.first(dims.size() - 1));
      Reals::Dispatch(s.input(0).dtype, [&]<class T>(Tag<T>) { function = &Loop<T>; });
      s.Vector(sdk::Multiply(sdk::Multiply(rows, width), kOperations));
    }
    void Work(char* const* at) const {
      if (width > 0) function(*this, at[0], at[1]);
    }
    template <class T>
    static void Loop(const Plan& p, const char* from, char* to) {
      using A = Wide<T>;
      std::vector<A> exponentials;
      for (int64_t r = 0; r < p.rows; ++r) {
        const T* x = reinterpret_cast<const T*>(from) + r * p.width;
        T* out = reinterpret_cast<T*>(to) + r * p.width;
        const Row<A> row(x, p.width, 1, &exponentials);
        const A log_sum = std::log(row.sum), scale = A(1) / row.sum;
        for (int64_t j = 0; j < p.width; ++j) {
          out[j] = static_cast<T>(kLog ? static_cast<A>(x[j]) - row.largest - log_sum
                                       : exponentials[static_cast<size_t>(j)] * scale);
        }
      }
    }
    int64_t rows, width;
    void (*function)(const Plan&, const char*, char*) = nullptr;
  };
};

// loss[r] = sum labels * (log sum exp - logits); backprop = softmax - labels. Logits and labels broadcast.
struct CrossEntropyKernel {
  struct Plan {
    Plan(const CrossEntropyKernel&, Shapes& s) {
      const Dims x = s.in(0), y = s.in(1), out = s.out(1);
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
      for (int i : {0, 1}) {
        const Dims dims = s.in(i);
        row[i] = dims[0] == 1 ? 0 : dims[1];
        step[i] = dims[1] == 1 ? 0 : 1;
      }
      Reals::Dispatch(s.input(0).dtype, [&]<class T>(Tag<T>) { function = &Loop<T>; });
      s.Vector(sdk::Multiply(sdk::Multiply(rows, width), kOperations + 4));
    }
    void Work(char* const* at) const { function(*this, at); }
    template <class T>
    static void Loop(const Plan& p, char* const* at) {
      using A = Wide<T>;
      T* loss = reinterpret_cast<T*>(at[2]);
      T* backprop = reinterpret_cast<T*>(at[3]);
      std::vector<A> exponentials;
      for (int64_t r = 0; r < p.rows; ++r) {
        A total = 0;
        if (p.width > 0) {
          const T* x = reinterpret_cast<const T*>(at[0]) + r * p.row[0];
          const T* y = reinterpret_cast<const T*>(at[1]) + r * p.row[1];
          const Row<A> row(x, p.width, p.step[0], &exponentials);
          const A log_sum = std::log(row.sum);
          for (int64_t j = 0; j < p.width; ++j) {
            const A label = y[j * p.step[1]];
            // A zero label counts nothing, whatever the logit.
            if (label != 0) total += label * (log_sum - (static_cast<A>(x[j * p.step[0]]) - row.largest));
            backprop[r * p.width + j] = static_cast<T>(exponentials[static_cast<size_t>(j)] / row.sum - label);
          }
        }
        loss[r] = static_cast<T>(total);
      }
    }
    int64_t rows, width, row[2], step[2];
    void (*function)(const Plan&, char* const*) = nullptr;
  };
};

struct SparseCrossEntropyKernel {
  struct Plan {
    Plan(const SparseCrossEntropyKernel&, Shapes& s) : label_type(s.input(1).dtype) {
      const Dims x = s.in(0), y = s.in(1);
      if (x.size() != 2 || y.size() != 1 || x[0] != y[0]) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "logits of shape ", x, " and labels of shape ", y,
                  "; they must be [batch, classes] and [batch]");
      }
      if (x[1] == 0 && x[0] != 0) sdk::Fail(TENON_INVALID_ARGUMENT, "Must have at least one class; logits are ", x);
      rows = x[0], width = x[1];
      Reals::Dispatch(s.input(0).dtype, [&]<class T>(Tag<T>) { function = &Loop<T>; });
      s.Vector(sdk::Multiply(sdk::Multiply(rows, width), kOperations));
    }
    void Work(char* const* at) const { function(*this, at); }
    template <class T>
    static void Loop(const Plan& p, char* const* at) {
      using A = Wide<T>;
      T* loss = reinterpret_cast<T*>(at[2]);
      std::vector<A> exponentials;
      for (int64_t r = 0; r < p.rows; ++r) {
        const int64_t label = sdk::IndexAt(at[1], p.label_type, r);
        if (label < 0 || label >= p.width) {
          sdk::Fail(TENON_INVALID_ARGUMENT, "Received a label value of ", label,
                    " which is outside the valid range of [0, ", p.width, "); it is label ", r);
        }
        const T* x = reinterpret_cast<const T*>(at[0]) + r * p.width;
        const Row<A> row(x, p.width, 1, &exponentials);
        // Before backprop, which may be the logits' memory.
        loss[r] = static_cast<T>(std::log(row.sum) - (static_cast<A>(x[label]) - row.largest));
        T* back = reinterpret_cast<T*>(at[3]) + r * p.width;
        const A scale = A(1) / row.sum;
        for (int64_t j = 0; j < p.width; ++j) {
          const auto rounded = static_cast<T>(exponentials[static_cast<size_t>(j)] * scale);
          back[j] = j == label ? static_cast<T>(static_cast<A>(rounded) - A(1)) : rounded;
        }
      }
    }
    uint32_t label_type;
    int64_t rows, width;
    void (*function)(const Plan&, char* const*) = nullptr;
  };
};

constexpr sdk::Traits kInPlace = {.constraints = sdk::Constraints<Reals::Constraint<"T">>::list,
                                  .in_place = sdk::kInPlaceFirst};
constexpr tenon_in_place kInPlaceBackprop[] = {{0, 1}};

}  // namespace

TENON_TPU_KERNEL(Softmax) = Kernel<SoftmaxKernel<false>>("Softmax", kInPlace);
TENON_TPU_KERNEL(LogSoftmax) = Kernel<SoftmaxKernel<true>>("LogSoftmax", kInPlace);
TENON_TPU_KERNEL(SoftmaxCrossEntropyWithLogits) = Kernel<CrossEntropyKernel>(
    "SoftmaxCrossEntropyWithLogits", {.constraints = sdk::Constraints<Reals::Constraint<"T">>::list});
TENON_TPU_KERNEL(SparseSoftmaxCrossEntropyWithLogits) = Kernel<SparseCrossEntropyKernel>(
    "SparseSoftmaxCrossEntropyWithLogits",
    {.constraints = sdk::Constraints<Reals::Constraint<"T">, sdk::Indices::Constraint<"Tlabels">>::list,
     .in_place = kInPlaceBackprop});

}  // namespace tenon::tpu_sim
