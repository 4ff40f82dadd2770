// SPDX-License-Identifier: Apache-2.0
// Cumsum, Cumprod and CumulativeLogsumexp. Every step is rounded to the element type, as what is written is what goes
// on.
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

#include "kernels/common/types.h"
#include "tenon/extras/kernel/elementwise.h"

namespace tenon::cpu {
namespace {

// What goes before the first element, and what an element adds.
struct SumStep {
  template <class T>
  static T First() { return T(0.0f); }
  template <class T>
  static T Combine(T x, T y) { return sdk::AddOp()(x, y); }
};
struct ProductStep {
  template <class T>
  static T First() { return T(1.0f); }
  template <class T>
  static T Combine(T x, T y) { return sdk::MulOp()(x, y); }
};
struct LogsumexpStep {
  template <class T>
  static T First() { return T(-std::numeric_limits<float>::infinity()); }
  template <class T>
  static T Combine(T x, T y) {
    const T larger = sdk::MaximumOp()(x, y), smaller = x < y ? x : y;
    if (larger - larger != T(0)) return larger;  // infinite or NaN
    return larger + std::log1p(std::exp(smaller - larger));
  }
};
template <class Step, class T>
T Combine(T x, T y) {
  if constexpr (kIsHalf<T>) {
    return static_cast<T>(Step::template Combine<float>(x, y));
  } else {
    return Step::template Combine<T>(x, y);
  }
}

// x as [outer, n, inner].
struct CumulativeAxis {
  int64_t outer = 1, n = 1, inner = 1;
};

template <class Step, class Set>
struct CumulativeKernel {
  explicit CumulativeKernel(sdk::CreateContext& c) : exclusive(c.Bool("exclusive")), reverse(c.Bool("reverse")) {}
  void Run(sdk::RunContext c) const {
    const sdk::Dims dims = sdk::DimsOf(c.input_view(0));
    const int64_t rank = static_cast<int64_t>(dims.size());
    const tenon_tensor_view& input = c.input_view(1);
    const int64_t given = IndexAt(sdk::Data<void>(input), input.dtype, 0);
    const int64_t axis = given < 0 ? given + rank : given;
    if (axis < 0 || axis >= rank) sdk::Fail(TENON_INVALID_ARGUMENT, "axis ", given, " is outside x of shape ", dims);
    const auto at = static_cast<size_t>(axis);
    const CumulativeAxis shape = {sdk::Count(dims.first(at)), dims[at], sdk::Count(dims.subspan(at + 1))};
    if (shape.outer * shape.n * shape.inner == 0) return;
    Set::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) { Typed<T>(c, shape); });
  }

 private:
  // Columns of a block go on together, so that the inner loop runs along memory.
  static constexpr int64_t kColumns = 64;

  template <class T>
  void Typed(sdk::RunContext c, const CumulativeAxis& s) const {
    const int64_t blocks = (s.inner + kColumns - 1) / kColumns;
    c.ParallelFor(s.outer * blocks, static_cast<double>(s.n * std::min(s.inner, kColumns)),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t i = begin; i < end; ++i) {
                      const int64_t first = i % blocks * kColumns;
                      Block<T>(s, c.input<T>(0), c.output<T>(0), i / blocks * s.n * s.inner + first,
                               std::min(kColumns, s.inner - first));
                    }
                  });
  }
  template <class T>
  void Block(const CumulativeAxis& s, const T* x, T* out, int64_t at, int64_t count) const {
    T so_far[kColumns];
    std::fill_n(so_far, count, Step::template First<T>());
    for (int64_t step = 0; step < s.n; ++step) {
      const int64_t row = at + (reverse ? s.n - 1 - step : step) * s.inner;
      for (int64_t j = 0; j < count; ++j) {
        const T before = so_far[j];
        // The first element is itself, so that -0 stays.
        so_far[j] = step == 0 && !exclusive ? x[row + j] : Combine<Step, T>(before, x[row + j]);
        out[row + j] = exclusive ? before : so_far[j];
      }
    }
  }

  bool exclusive, reverse;
};

template <class Step, class Set>
constexpr tenon_kernel_registration Cumulative(std::string_view op) {
  return CpuKernel<CumulativeKernel<Step, Set>>(
      op, {.constraints = sdk::Constraints<typename Set::template Constraint<"T">, Indices::Constraint<"Tidx">>::list});
}

}  // namespace

TENON_CPU_KERNEL(Cumsum) = Cumulative<SumStep, Numbers::AndComplex>("Cumsum");
TENON_CPU_KERNEL(Cumprod) = Cumulative<ProductStep, Numbers::AndComplex>("Cumprod");
TENON_CPU_KERNEL(CumulativeLogsumexp) = Cumulative<LogsumexpStep, Reals>("CumulativeLogsumexp");

}  // namespace tenon::cpu
