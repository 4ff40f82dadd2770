// SPDX-License-Identifier: Apache-2.0
// SparseSegmentSum, SparseSegmentMean and their gradients. Halves are summed as floats and rounded once.
#include <algorithm>

#include "kernels/types.h"
#include "tenon/sdk/update.h"

namespace tenon::cpu {
namespace {

using View = tenon_tensor_view;

int64_t NumberAt(const View& view, int64_t i) { return IndexAt(sdk::Data<void>(view), view.dtype, i); }

int64_t CheckedCount(sdk::RunContext c) {
  const int64_t count = sdk::Count(c.input_view(1));
  if (count != sdk::Count(c.input_view(2))) sdk::Fail(TENON_INVALID_ARGUMENT, count, " indices and ", sdk::Count(c.input_view(2)), " segment_ids");
  return count;
}
int64_t RowOf(const View& rows) {
  const sdk::Dims dims = sdk::DimsOf(rows);
  if (dims.empty()) sdk::Fail(TENON_INVALID_ARGUMENT, "data must have rows; it is a scalar");
  return sdk::Count(dims.subspan(1));
}

using Summed = Types<float, double, int32_t, int64_t, Half, Bfloat16, uint8_t, int8_t, int16_t, uint16_t, uint32_t, uint64_t>;

template <bool kMean>
struct SegmentKernel {
  using Set = std::conditional_t<kMean, Reals, Summed>;
  struct Plan {
    Plan(const SegmentKernel&, sdk::PrepareContext& c) {
      const sdk::Dims dims = sdk::DimsOf(c.input(0));
      c.Workspace(sdk::Multiply(dims.empty() ? 1 : sdk::Count(dims.subspan(1)), sizeof(double)));
    }
  };
  void Run(const Plan&, sdk::RunContext c) const {
    const View& data = c.input_view(0);
    const View& ids = c.input_view(2);
    const int64_t count = CheckedCount(c), row = RowOf(data);
    for (int64_t i = 0, before = 0; i < count; ++i) {
      const int64_t id = NumberAt(ids, i);
      if (id < before) sdk::Fail(TENON_INVALID_ARGUMENT, i == 0 ? "segment ids must be >= 0" : "segment ids are not increasing", ": segment_ids[", i, "] = ", id);
      before = id;
      sdk::CheckRow(NumberAt(c.input_view(1), i), i, data.dl.shape[0]);
    }
    std::vector<int64_t> dims(data.dl.shape, data.dl.shape + data.dl.ndim);
    dims[0] = count == 0 ? 0 : NumberAt(ids, count - 1) + 1;
    c.AllocOutput(0, dims);
    Set::Dispatch(data.dtype, [&]<class T>(Tag<T>) { Sum<T>(c, count, row); });
  }

 private:
  template <class T>
  static void Sum(sdk::RunContext c, int64_t count, int64_t row) {
    using A = std::conditional_t<std::is_integral_v<T>, uint64_t, Wide<T>>;
    T* out = c.output<T>(0);
    A* sums = c.workspace<A>();
    std::fill_n(out, sdk::Count(c.output_view(0)), T(0));
    for (int64_t i = 0; i < count;) {
      const int64_t id = NumberAt(c.input_view(2), i);
      const int64_t first = i;
      std::fill_n(sums, row, A(0));
      for (; i < count && NumberAt(c.input_view(2), i) == id; ++i) {
        const T* from = c.input<T>(0) + NumberAt(c.input_view(1), i) * row;
        for (int64_t j = 0; j < row; ++j) sums[j] += static_cast<A>(from[j]);
      }
      const A divisor = kMean ? static_cast<A>(i - first) : A(1);
      for (int64_t j = 0; j < row; ++j) out[id * row + j] = static_cast<T>(kMean ? sums[j] / divisor : sums[j]);
    }
  }
};

// (grad, indices, segment_ids, output_dim0).
template <bool kMean>
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
    const View& grad = c.input_view(0);
    const int64_t count = CheckedCount(c), row = RowOf(grad), segments = grad.dl.shape[0], rows = c.output_view(0).dl.shape[0];
    int64_t* counts = c.workspace<int64_t>(plan.counts);
    std::fill_n(counts, segments, int64_t{0});
    for (int64_t i = 0; i < count; ++i) {
      const int64_t id = NumberAt(c.input_view(2), i);
      if (id < 0 || id >= segments) sdk::Fail(TENON_INVALID_ARGUMENT, "segment_ids[", i, "] = ", id, " is not in [0, ", segments, ")");
      sdk::CheckRow(NumberAt(c.input_view(1), i), i, rows);
      ++counts[id];
    }
    Reals::Dispatch(grad.dtype, [&]<class T>(Tag<T>) {
      using A = Wide<T>;
      A* sums = c.workspace<A>(plan.sums);
      const int64_t total = sdk::Count(c.output_view(0));
      std::fill_n(sums, total, A(0));
      for (int64_t i = 0; i < count; ++i) {
        const int64_t id = NumberAt(c.input_view(2), i);
        const A scale = kMean ? A(1) / static_cast<A>(counts[id]) : A(1);
        const T* from = c.input<T>(0) + id * row;
        A* to = sums + NumberAt(c.input_view(1), i) * row;
        for (int64_t j = 0; j < row; ++j) to[j] += static_cast<A>(from[j]) * scale;
      }
      for (int64_t i = 0; i < total; ++i) c.output<T>(0)[i] = static_cast<T>(sums[i]);
    });
  }
};

template <class Set>
constexpr sdk::Traits Typed(uint64_t dynamic_outputs) {
  return {.constraints = sdk::Constraints<typename Set::template Constraint<"T">, Indices::Constraint<"Tidx">, Indices::Constraint<"Tsegmentids">>::list,
          .dynamic_outputs = dynamic_outputs};
}

}  // namespace

TENON_CPU_KERNEL(SparseSegmentSum) = CpuKernel<SegmentKernel<false>>("SparseSegmentSum", Typed<Summed>(1));
TENON_CPU_KERNEL(SparseSegmentMean) = CpuKernel<SegmentKernel<true>>("SparseSegmentMean", Typed<Reals>(1));
TENON_CPU_KERNEL(SparseSegmentSumGrad) = CpuKernel<SegmentGradKernel<false>>("SparseSegmentSumGrad", Typed<Reals>(0));
TENON_CPU_KERNEL(SparseSegmentMeanGrad) = CpuKernel<SegmentGradKernel<true>>("SparseSegmentMeanGrad", Typed<Reals>(0));

}  // namespace tenon::cpu
