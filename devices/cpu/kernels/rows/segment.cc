// SPDX-License-Identifier: Apache-2.0
// Sums, means, products, the largest and the smallest of rows, by segment.
#include <algorithm>
#include <limits>

#include "kernels/common/types.h"
#include "tenon/extras/kernel/elementwise.h"
#include "tenon/extras/walk/row_shape.h"

namespace tenon::cpu {
namespace {

// What a segment begins with and how a row goes into it. Every step is rounded to T, but for the means' sums (Sums).
struct SumOf : sdk::AddOp {
  using Set = AnyNumbers;
  template <class T>
  static T First() { return T(0); }
};
struct MeanOf : SumOf {};
struct ProdOf : sdk::MulOp {
  using Set = AnyNumbers;
  template <class T>
  static T First() { return T(1); }
};
struct MaxOf : sdk::MaximumOp {
  using Set = Numbers;
  template <class T>
  static T First() { return std::numeric_limits<T>::lowest(); }
};
struct MinOf : sdk::MinimumOp {
  using Set = Numbers;
  template <class T>
  static T First() { return std::numeric_limits<T>::max(); }
};
// The largest finite half, and bfloat16.
template <class Op, class T>
T FirstOf() {
  if constexpr (!kIsHalf<T>) {
    return Op::template First<T>();
  } else {
    const float first = Op::template First<float>();
    if (first == 0 || first == 1) return T(first);
    const float most = std::is_same_v<T, Half> ? 65504.0f : 0x1.fep127f;
    return T(first < 0 ? -most : most);
  }
}
template <class Op, class T>
T Step(T x, T y) {
  if constexpr (kIsHalf<T>) {
    return T(Op()(static_cast<float>(x), static_cast<float>(y)));
  } else {
    return Op()(x, y);
  }
}

// Sorted segments: the last id says how many there are, and those without rows are 1 for products, else 0.
template <class Op>
struct SortedKernel {
  struct Plan {
    Plan(const SortedKernel&, sdk::PrepareContext& c) {
      const sdk::Dims dims = sdk::DimsOf(c.input(0));
      if constexpr (std::is_same_v<Op, MeanOf>)
        c.Workspace(sdk::Multiply(dims.empty() ? 1 : sdk::Count(dims.subspan(1)), 2 * sizeof(double)));
    }
  };
  void Run(const Plan&, sdk::RunContext c) const {
    const View& ids = c.input_view(1);
    const void* id = sdk::Data<void>(ids);
    const sdk::Dims segments = sdk::DimsOf(ids),
                    tail = sdk::TailOf("segment_ids", segments, sdk::DimsOf(c.input_view(0)));
    const int64_t width = sdk::Count(tail), count = sdk::Count(segments);
    int64_t rows = 0;
    for (int64_t i = 0, last = 0; i < count; ++i) {
      const int64_t row = IndexAt(id, ids.dtype, i);
      if (row < last) sdk::Fail(TENON_INVALID_ARGUMENT, "segment ids are not increasing, or negative, at ", i);
      if (row == std::numeric_limits<int64_t>::max())
        sdk::Fail(TENON_INVALID_ARGUMENT, "segment_ids[", i, "] = ", row, " leaves no number for how many there are");
      last = row;
      rows = row + 1;
    }
    sdk::AllocRows(c, 0, rows, tail);
    if (rows == 0 || width == 0) return;
    Op::Set::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      const T* x = c.input<T>(0);
      T* out = c.output<T>(0);
      const T missing = T(std::is_same_v<Op, ProdOf> ? 1.0f : 0.0f);
      sdk::CancelPoll poll(c);
      int64_t next = 0;  // the first row of the output that is not written
      for (int64_t i = 0; i < count;) {
        const int64_t row = IndexAt(id, ids.dtype, i), first = i;
        while (i < count && IndexAt(id, ids.dtype, i) == row) ++i;
        for (; next < row; ++next) {
          std::fill_n(out + next * width, width, missing);
          poll(1 + width / 4);
        }
        ++next;
        Segment(c, x + first * width, out + row * width, i - first, width, poll);
      }
    });
  }

 private:
  template <class T>
  static void Segment(const sdk::RunContext& c, const T* x, T* out, int64_t n, int64_t width, sdk::CancelPoll& poll) {
    if constexpr (std::is_same_v<Op, MeanOf>) {
      using A = Wide<T>;
      A* sums = c.workspace<A>();
      for (int64_t j = 0; j < width; ++j) sums[j] = static_cast<A>(x[j]);
      for (int64_t i = 1; i < n; ++i) {
        poll(1 + width / 4);
        for (int64_t j = 0; j < width; ++j) sums[j] = sdk::AddOp()(sums[j], static_cast<A>(x[i * width + j]));
      }
      for (int64_t j = 0; j < width; ++j) out[j] = static_cast<T>(Mean(sums[j], n));
    } else {
      std::copy_n(x, width, out);
      for (int64_t i = 1; i < n; ++i) {
        poll(1 + width / 4);
        for (int64_t j = 0; j < width; ++j) out[j] = Step<Op>(out[j], x[i * width + j]);
      }
    }
  }
  // Whole numbers are cut off towards 0.
  template <class A>
  static A Mean(A sum, int64_t n) {
    if constexpr (std::is_signed_v<A> && std::is_integral_v<A>) return static_cast<A>(static_cast<int64_t>(sum) / n);
    else if constexpr (std::is_integral_v<A>)
      return static_cast<A>(static_cast<uint64_t>(sum) / static_cast<uint64_t>(n));
    else return sum / static_cast<A>(static_cast<double>(n));
  }
};

// Segments in any order; rows with a negative id are dropped.
template <class Op>
struct UnsortedKernel {
  void Run(sdk::RunContext c) const {
    const View &ids = c.input_view(1), &given = c.input_view(2);
    const void* id = sdk::Data<void>(ids);
    const sdk::Dims segments = sdk::DimsOf(ids),
                    tail = sdk::TailOf("segment_ids", segments, sdk::DimsOf(c.input_view(0)));
    const int64_t width = sdk::Count(tail), count = sdk::Count(segments),
                  rows = IndexAt(sdk::Data<void>(given), given.dtype, 0);
    if (rows < 0 || sdk::Multiply(rows, width) != sdk::Count(c.output_view(0))) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "num_segments ", rows, " does not give the output's shape ",
                sdk::DimsOf(c.output_view(0)));
    }
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = IndexAt(id, ids.dtype, i);
      if (row >= rows)
        sdk::Fail(TENON_INVALID_ARGUMENT, "segment_ids[", i, "] = ", row, " is out of range [0, ", rows, ")");
    }
    Op::Set::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      const T* x = c.input<T>(0);
      T* out = c.output<T>(0);
      std::fill_n(out, rows * width, FirstOf<Op, T>());
      sdk::CancelPoll poll(c);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t row = IndexAt(id, ids.dtype, i);
        if (row < 0) continue;
        T* to = out + row * width;
        const T* from = x + i * width;
        poll(1 + width / 4);
        for (int64_t j = 0; j < width; ++j) to[j] = Step<Op>(to[j], from[j]);
      }
    });
  }
};

template <class Op>
constexpr tenon_kernel_registration Sorted(std::string_view op) {
  return CpuKernel<SortedKernel<Op>>(
      op, {.constraints = sdk::Constraints<typename Op::Set::template Constraint<"T">>::list, .dynamic_outputs = 1});
}
template <class Op>
constexpr tenon_kernel_registration Unsorted(std::string_view op) {
  return CpuKernel<UnsortedKernel<Op>>(
      op, {.constraints = sdk::Constraints<typename Op::Set::template Constraint<"T">>::list});
}

}  // namespace

TENON_CPU_KERNEL(SegmentSum) = Sorted<SumOf>("SegmentSum");
TENON_CPU_KERNEL(SegmentMean) = Sorted<MeanOf>("SegmentMean");
TENON_CPU_KERNEL(SegmentProd) = Sorted<ProdOf>("SegmentProd");
TENON_CPU_KERNEL(SegmentMax) = Sorted<MaxOf>("SegmentMax");
TENON_CPU_KERNEL(SegmentMin) = Sorted<MinOf>("SegmentMin");
TENON_CPU_KERNEL(UnsortedSegmentSum) = Unsorted<SumOf>("UnsortedSegmentSum");
TENON_CPU_KERNEL(UnsortedSegmentProd) = Unsorted<ProdOf>("UnsortedSegmentProd");
TENON_CPU_KERNEL(UnsortedSegmentMax) = Unsorted<MaxOf>("UnsortedSegmentMax");
TENON_CPU_KERNEL(UnsortedSegmentMin) = Unsorted<MinOf>("UnsortedSegmentMin");

}  // namespace tenon::cpu
