// SPDX-License-Identifier: Apache-2.0
// SparseSegmentSum, ...Mean, ...SqrtN and their gradients. Halves are summed as floats and rounded once.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/common/types.h"
#include "tenon/extras/kernel/segment.h"
#include "tenon/extras/kernel/update.h"
#include "tenon/extras/walk/row_shape.h"
#include "tenon/extras/walk/slices.h"

namespace tenon::cpu {
namespace {

using sdk::Divisor, sdk::Over, sdk::SegmentShape;

using Summed =
    Types<float, double, int32_t, int64_t, Half, Bfloat16, uint8_t, int8_t, int16_t, uint16_t, uint32_t, uint64_t>;

// kNumbered: input 3 says how many segments there are; else the last id does.
template <Over kOver, bool kNumbered = false>
struct SegmentKernel {
  using Set = std::conditional_t<kOver == Over::kOne, Summed, Reals>;
  struct Plan {
    Plan(const SegmentKernel&, sdk::PrepareContext& c) {
      const sdk::Dims dims = sdk::DimsOf(c.input(0));
      c.Workspace(sdk::Multiply(dims.empty() ? 1 : sdk::Count(dims.subspan(1)), sizeof(double)));
    }
  };
  void Run(const Plan&, sdk::RunContext c) const {
    const View& data = c.input_view(0);
    const View& ids = c.input_view(2);
    const SegmentShape shape(c.frame()->inputs);
    const int64_t count = shape.count, row = shape.width;
    const int64_t segments = kNumbered ? sdk::ValueAt(c.input_view(3), 0) : std::numeric_limits<int64_t>::max();
    if (segments < 0) sdk::Fail(TENON_INVALID_ARGUMENT, "num_segments is ", segments, "; it must not be negative");
    for (int64_t i = 0, before = 0; i < count; ++i) {
      const int64_t id = sdk::ValueAt(ids, i);
      if (id < before)
        sdk::Fail(TENON_INVALID_ARGUMENT, i == 0 ? "segment ids must be >= 0" : "segment ids are not increasing",
                  ": segment_ids[", i, "] = ", id);
      if (kNumbered && id >= segments)
        sdk::Fail(TENON_INVALID_ARGUMENT, "segment_ids[", i, "] = ", id, " is not below num_segments, ", segments);
      if (id == std::numeric_limits<int64_t>::max())
        sdk::Fail(TENON_INVALID_ARGUMENT, "segment_ids[", i, "] = ", id, " leaves no number for how many there are");
      before = id;
      sdk::CheckRow(sdk::ValueAt(c.input_view(1), i), i, data.dl.shape[0]);
    }
    sdk::AllocRows(c, 0, kNumbered ? segments : count == 0 ? 0 : sdk::ValueAt(ids, count - 1) + 1, shape.tail);
    Set::Dispatch(data.dtype, [&]<class T>(Tag<T>) { Sum<T>(c, count, row); });
  }

 private:
  template <class T>
  static void Sum(sdk::RunContext c, int64_t count, int64_t row) {
    using A = std::conditional_t<std::is_integral_v<T>, uint64_t, Wide<T>>;
    T* out = c.output<T>(0);
    A* sums = c.workspace<A>();
    std::fill_n(out, sdk::Count(c.output_view(0)), T(0));
    sdk::CancelPoll poll(c);
    for (int64_t i = 0; i < count;) {
      const int64_t id = sdk::ValueAt(c.input_view(2), i);
      const int64_t first = i;
      std::fill_n(sums, row, A(0));
      for (; i < count && sdk::ValueAt(c.input_view(2), i) == id; ++i) {
        const T* from = c.input<T>(0) + sdk::ValueAt(c.input_view(1), i) * row;
        poll(1 + row / 4);
        for (int64_t j = 0; j < row; ++j) sums[j] += static_cast<A>(from[j]);
      }
      const A divisor = Divisor<kOver, A>(i - first);
      for (int64_t j = 0; j < row; ++j)
        out[id * row + j] = static_cast<T>(kOver == Over::kOne ? sums[j] : sums[j] / divisor);
    }
  }
};

// How many rows each segment has; ids and rows are checked.
void CountSegments(sdk::RunContext c, int64_t count, int64_t rows, int64_t* counts) {
  const int64_t segments = c.input_view(0).dl.shape[0];
  std::fill_n(counts, segments, int64_t{0});
  for (int64_t i = 0; i < count; ++i) {
    const int64_t id = sdk::ValueAt(c.input_view(2), i);
    if (id < 0 || id >= segments)
      sdk::Fail(TENON_INVALID_ARGUMENT, "segment_ids[", i, "] = ", id, " is not in [0, ", segments, ")");
    sdk::CheckRow(sdk::ValueAt(c.input_view(1), i), i, rows);
    ++counts[id];
  }
}

// sums[place(index)] += grad[id] over the segment's divisor, for each (index, id); then output 0, `total` elements.
template <Over kOver, class T, class Place>
void AddGradients(sdk::RunContext c, int64_t count, const int64_t* counts, Wide<T>* sums, int64_t total,
                  Place&& place) {
  using A = Wide<T>;
  const int64_t row = SegmentShape(c.frame()->inputs).width;
  std::fill_n(sums, total, A(0));
  sdk::CancelPoll poll(c);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t id = sdk::ValueAt(c.input_view(2), i);
    const A scale = A(1) / Divisor<kOver, A>(counts[id]);
    const T* from = c.input<T>(0) + id * row;
    poll(10 + row / 4);
    A* to = sums + place(sdk::ValueAt(c.input_view(1), i)) * row;
    for (int64_t j = 0; j < row; ++j) to[j] += static_cast<A>(from[j]) * scale;
  }
  for (int64_t i = 0; i < total; ++i) c.output<T>(0)[i] = static_cast<T>(sums[i]);
}

// (grad, indices, segment_ids, output_dim0).
template <Over kOver>
struct SegmentGradKernel {
  struct Plan {
    Plan(const SegmentGradKernel&, sdk::PrepareContext& c) {
      const sdk::Dims dims = sdk::DimsOf(c.input(0));
      sums = c.Workspace(sdk::Multiply(sdk::Count(c.output(0)), sizeof(double)));
      counts = c.Workspace(sdk::Multiply(dims.empty() ? 1 : dims[0], sizeof(int64_t)));
    }
    int64_t sums, counts;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    const int64_t count = SegmentShape(c.frame()->inputs).count;
    int64_t* counts = c.workspace<int64_t>(plan.counts);
    CountSegments(c, count, c.output_view(0).dl.shape[0], counts);
    Reals::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      AddGradients<kOver, T>(c, count, counts, c.workspace<Wide<T>>(plan.sums), sdk::Count(c.output_view(0)),
                             [](int64_t index) { return index; });
    });
  }
};

// (grad, indices, segment_ids, dense_output_dim0): only the rows that indices name, in their order.
template <Over kOver>
struct SegmentGradV2Kernel {
  struct Plan {
    Plan(const SegmentGradV2Kernel&, sdk::PrepareContext& c) {
      const sdk::Dims dims = sdk::DimsOf(c.input(0));
      const int64_t count = sdk::Count(c.input(1)), row = dims.empty() ? 1 : sdk::Count(dims.subspan(1));
      sums = c.Workspace(sdk::Multiply(sdk::Multiply(count, row), sizeof(double)));
      counts = c.Workspace(sdk::Multiply(dims.empty() ? 1 : dims[0], sizeof(int64_t)));
      named = c.Workspace(sdk::Multiply(count, sizeof(int64_t)));
    }
    int64_t sums, counts, named;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    const View& grad = c.input_view(0);
    const SegmentShape shape(c.frame()->inputs);
    const int64_t count = shape.count, row = shape.width;
    int64_t *counts = c.workspace<int64_t>(plan.counts), *named = c.workspace<int64_t>(plan.named);
    const int64_t all_rows = sdk::ValueAt(c.input_view(3), 0);
    if (all_rows < 0) sdk::Fail(TENON_INVALID_ARGUMENT, "dense_output_dim0 is ", all_rows, "; it must not be negative");
    CountSegments(c, count, all_rows, counts);
    for (int64_t i = 0; i < count; ++i) named[i] = sdk::ValueAt(c.input_view(1), i);
    sdk::CancelPoll poll(c);
    std::sort(named, named + count, [&poll](int64_t a, int64_t b) {
      poll(2);
      return a < b;
    });
    const int64_t rows = std::unique(named, named + count) - named;
    sdk::AllocRows(c, 0, rows, shape.tail);
    c.AllocOutput(1, sdk::Dims(&rows, 1));
    Indices::Dispatch(c.input_view(1).dtype,
                      [&]<class Index>(Tag<Index>) { std::copy_n(named, rows, c.output<Index>(1)); });
    Reals::Dispatch(grad.dtype, [&]<class T>(Tag<T>) {
      AddGradients<kOver, T>(c, count, counts, c.workspace<Wide<T>>(plan.sums), rows * row,
                             [&](int64_t index) { return std::lower_bound(named, named + rows, index) - named; });
    });
  }
};

template <class Set>
constexpr sdk::Traits Typed(uint64_t dynamic_outputs) {
  return {.constraints = sdk::Constraints<typename Set::template Constraint<"T">, Indices::Constraint<"Tidx">,
                                          Indices::Constraint<"Tsegmentids">>::list,
          .dynamic_outputs = dynamic_outputs};
}

}  // namespace

TENON_CPU_KERNEL(SparseSegmentSum) = CpuKernel<SegmentKernel<Over::kOne>>("SparseSegmentSum", Typed<Summed>(1));
TENON_CPU_KERNEL(SparseSegmentMean) = CpuKernel<SegmentKernel<Over::kCount>>("SparseSegmentMean", Typed<Reals>(1));
TENON_CPU_KERNEL(SparseSegmentSqrtN) = CpuKernel<SegmentKernel<Over::kRoot>>("SparseSegmentSqrtN", Typed<Reals>(1));
TENON_CPU_KERNEL(SparseSegmentSumWithNumSegments) =
    CpuKernel<SegmentKernel<Over::kOne, true>>("SparseSegmentSumWithNumSegments", Typed<Summed>(1));
TENON_CPU_KERNEL(SparseSegmentMeanWithNumSegments) =
    CpuKernel<SegmentKernel<Over::kCount, true>>("SparseSegmentMeanWithNumSegments", Typed<Reals>(1));
TENON_CPU_KERNEL(SparseSegmentSqrtNWithNumSegments) =
    CpuKernel<SegmentKernel<Over::kRoot, true>>("SparseSegmentSqrtNWithNumSegments", Typed<Reals>(1));
TENON_CPU_KERNEL(SparseSegmentSumGrad) = CpuKernel<SegmentGradKernel<Over::kOne>>("SparseSegmentSumGrad",
                                                                                  Typed<Reals>(0));
TENON_CPU_KERNEL(SparseSegmentMeanGrad) = CpuKernel<SegmentGradKernel<Over::kCount>>("SparseSegmentMeanGrad",
                                                                                     Typed<Reals>(0));
TENON_CPU_KERNEL(SparseSegmentSqrtNGrad) = CpuKernel<SegmentGradKernel<Over::kRoot>>("SparseSegmentSqrtNGrad",
                                                                                     Typed<Reals>(0));
TENON_CPU_KERNEL(SparseSegmentSumGradV2) = CpuKernel<SegmentGradV2Kernel<Over::kOne>>("SparseSegmentSumGradV2",
                                                                                      Typed<Reals>(0b11));
TENON_CPU_KERNEL(SparseSegmentMeanGradV2) = CpuKernel<SegmentGradV2Kernel<Over::kCount>>("SparseSegmentMeanGradV2",
                                                                                         Typed<Reals>(0b11));
TENON_CPU_KERNEL(SparseSegmentSqrtNGradV2) = CpuKernel<SegmentGradV2Kernel<Over::kRoot>>("SparseSegmentSqrtNGradV2",
                                                                                         Typed<Reals>(0b11));

}  // namespace tenon::cpu
