// SPDX-License-Identifier: Apache-2.0
// SegmentSum and SegmentMean; SparseSegmentSum, ...Mean, ...SqrtN and their gradients. All are sums of rows that stand
// together; the gradients sort first, by the row that is added to.
#include <limits>

#include "kernels/move.h"
#include "kernels/segment_sum.h"
#include "kernels/sort.h"
#include "tenon/extras/walk/row_shape.h"

namespace tenon::gpu {
namespace {

constexpr char kIndexText[] = "indices[{0}] = {1} is not in [0, {2})";
constexpr char kIdText[] = "segment_ids[{0}] = {1} is not in [0, {2})";

IndexTensor IndicesOf(const View& view) { return {sdk::Data<void>(view), KindOf(view.dtype)}; }

// ---- Sums whose ids say how many there are ----

// Finds that ids are sorted, and the number of segments.
class SegmentCheck {
 public:
  SegmentCheck() = default;
  SegmentCheck(bool is_sparse, Shapes& s) : rows_at_(s.Workspace(8)), code_(s.Code("SegmentCheck")) {
    const auto site = [&](const char* text) { return s.Site(TENON_INVALID_ARGUMENT, text); };
    static constexpr char kPlain[] = "segment ids are not increasing, or negative, at {0}";
    first_ = site(is_sparse ? "segment ids must be >= 0: segment_ids[{0}] = {1}" : kPlain);
    order_ = site(is_sparse ? "segment ids are not increasing: segment_ids[{0}] = {1}" : kPlain);
    last_ = site("segment_ids[{0}] = {1} leaves no number for how many there are");
  }
  int64_t Find(const sdk::RunContext& c, int32_t input, int64_t count) const {
    int64_t rows = 0;
    if (count == 0) return 0;
    auto* const word = c.workspace<int64_t>(rows_at_);
    const View& ids = c.input_view(input);
    SubmitTo(*c.frame(), [&](Launcher& on) {
      on(code_, Flat(count),
         SegmentCheckParams{IndicesOf(ids), count, word, on.Site(first_), on.Site(order_), on.Site(last_)});
    });
    ReadBack(c, word, {&rows, 1});
    return rows;
  }

 private:
  int64_t rows_at_ = 0;
  Function code_ = nullptr;
  uint64_t first_ = 0, order_ = 0, last_ = 0;
};

template <Over kOver>
struct SegmentSumKernel : NamedKernel {
  using NamedKernel::NamedKernel;
  struct Plan {
    Plan(const SegmentSumKernel& kernel, sdk::PrepareContext& c) {
      kernel.Prepare(c, [&](Shapes& s) {
        const sdk::Dims tail = sdk::TailOf("segment_ids", s.in(1), s.in(0));
        sdk::CheckRank(tail);
        count = sdk::Count(s.in(1));
        check = SegmentCheck(false, s);
        summing = SegmentSumming(count, sdk::Count(tail), s.dtype(0), s);
      });
    }
    int64_t count = 0;
    SegmentCheck check;
    SegmentSumming summing;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    const View &data = c.input_view(0), &ids = c.input_view(1);
    SegmentSumParams p = {};
    p.out_rows = plan.check.Find(c, 1, plan.count);
    sdk::AllocRows(c, 0, p.out_rows, sdk::DimsOf(data).subspan(static_cast<size_t>(ids.dl.ndim)));
    p.x = sdk::Data<void>(data);
    p.ids = IndicesOf(ids);
    p.out = c.output<void>(0);
    p.over = kOver;
    SubmitTo(*c.frame(), [&](Launcher& on) { plan.summing.Launch(on, c.workspace<char>(), p); });
  }
};

// kNumbered: input 3, on the host, says how many segments there are; else the last id does.
template <Over kOver, bool kNumbered>
struct SparseSegmentKernel : NamedKernel {
  using NamedKernel::NamedKernel;
  struct Plan {
    Plan(const SparseSegmentKernel& kernel, sdk::PrepareContext& c) {
      kernel.Prepare(c, [&](Shapes& s) {
        const sdk::SegmentShape shape(s.inputs());
        sdk::CheckRank(shape.tail);
        count = shape.count;
        check = SegmentCheck(true, s);
        summing = SegmentSumming(count, shape.width, s.dtype(0), s);
        site = s.Site(TENON_INVALID_ARGUMENT, kIndexText);
      });
    }
    int64_t count = 0;
    SegmentCheck check;
    SegmentSumming summing;
    uint64_t site = 0;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    const View &data = c.input_view(0), &indices = c.input_view(1), &ids = c.input_view(2);
    SegmentSumParams p = {};
    p.out_rows = plan.check.Find(c, 2, plan.count);
    if constexpr (kNumbered) {
      const int64_t segments = sdk::IndexAt(c.input<void>(3), c.input_view(3).dtype, 0);
      if (segments < 0) sdk::Fail(TENON_INVALID_ARGUMENT, "num_segments is ", segments, "; it must not be negative");
      if (p.out_rows > segments)
        sdk::Fail(TENON_INVALID_ARGUMENT, "segment_ids has ", p.out_rows - 1, ", which is not below num_segments, ",
                  segments);
      p.out_rows = segments;
    }
    sdk::AllocRows(c, 0, p.out_rows, sdk::DimsOf(data).subspan(1));
    p.x = sdk::Data<void>(data);
    p.x_rows = data.dl.shape[0];
    p.rows = IndicesOf(indices);
    p.ids = IndicesOf(ids);
    p.out = c.output<void>(0);
    p.over = kOver;
    SubmitTo(*c.frame(), [&](Launcher& on) {
      p.row = on.Site(plan.site);
      plan.summing.Launch(on, c.workspace<char>(), p);
    });
  }
};

// ---- Gradients ----

// The part that both versions have: (grad, indices, segment_ids, ...) sorted by the rows that are added to.
class SortedGradient {
 public:
  SortedGradient() = default;
  // rows: that are added to.
  SortedGradient(int64_t rows, Over over, Shapes& s) : rows_(rows), over_(over) {
    const sdk::SegmentShape shape(s.inputs());
    const uint32_t wide = s.dtype(0) == TENON_DT_DOUBLE ? TENON_DT_DOUBLE : TENON_DT_FLOAT;
    count_ = shape.count;
    segments_ = shape.rows;
    index_kind_ = KindOf(s.dtype(1));
    id_kind_ = KindOf(s.dtype(2));
    sorting_ = Sorting(count_, static_cast<uint64_t>(rows), s);
    counts_at_ = s.Workspace(4 * segments_);
    rows_at_ = s.Workspace(8 * count_);
    scales_at_ = s.Workspace(SumBytes(wide) * count_);
    keys_code_ = s.Code("SegmentGradKeys");
    rows_code_ = s.Code("SegmentGradRows", wide);
    index_ = s.Site(TENON_INVALID_ARGUMENT, kIndexText);
    id_ = s.Site(TENON_INVALID_ARGUMENT, kIdText);
    summing_ = SegmentSumming(count_, shape.width, s.dtype(0), s);
  }
  // The same for fewer rows.
  SortedGradient WithRows(int64_t rows) const {
    SortedGradient other = *this;
    other.rows_ = rows;
    other.sorting_.SetLimit(static_cast<uint64_t>(rows));
    return other;
  }
  int64_t count() const { return count_; }
  const uint64_t* keys(char* memory) const { return sorting_.keys(memory); }

  void Sort(Launcher& on, const void* indices, const void* segment_ids, char* memory) const {
    const IndexTensor ids = {segment_ids, id_kind_};
    auto* const counts = reinterpret_cast<uint32_t*>(memory + counts_at_);
    on.Fill(counts, 0, 4 * segments_);
    on(keys_code_, Flat(count_),
       SegmentKeyParams{{indices, index_kind_},
                        ids,
                        count_,
                        rows_,
                        segments_,
                        sorting_.input(memory),
                        counts,
                        on.Site(index_),
                        on.Site(id_)});
    sorting_.Launch(on, memory);
    auto* const rows = reinterpret_cast<int64_t*>(memory + rows_at_);
    on(rows_code_, Flat(count_),
       SegmentGradParams{sorting_.places(memory), ids, counts, count_, segments_, rows, memory + scales_at_, over_});
  }
  void Sum(Launcher& on, const void* grad, const void* ids, void* out, int64_t out_rows, char* memory) const {
    SegmentSumParams p = {};
    p.x = grad;
    p.x_rows = segments_;
    p.rows = {memory + rows_at_, IndexKind::kInt64};
    p.ids = {ids, IndexKind::kInt64};
    p.scales = memory + scales_at_;
    p.out = out;
    p.out_rows = out_rows;
    p.row = on.Site(id_);
    summing_.Launch(on, memory, p);
  }

 private:
  int64_t rows_ = 0, count_ = 0, segments_ = 0;
  Over over_ = Over::kOne;
  IndexKind index_kind_ = IndexKind::kInt32, id_kind_ = IndexKind::kInt32;
  Sorting sorting_;
  SegmentSumming summing_;
  int64_t counts_at_ = 0, rows_at_ = 0, scales_at_ = 0;
  Function keys_code_ = nullptr, rows_code_ = nullptr;
  uint64_t index_ = 0, id_ = 0;
};

// (grad, indices, segment_ids, output_dim0).
template <Over kOver>
struct SegmentGradKernel {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("output_dim0"), 3}};
  struct Plan {
    Plan(const SegmentGradKernel&, Shapes& s)
        : rows(RowsOf(s)), gradient(rows, kOver, s) {}
    static int64_t RowsOf(const Shapes& s) {
      if (s.out(0).empty()) sdk::Fail(TENON_INVALID_ARGUMENT, "data must have rows; it is a scalar");
      return s.out(0)[0];
    }
    void Launch(Launcher& on, char* const* at) const {
      char* const memory = on.Workspace<char>(0);
      if (gradient.count() > 0) gradient.Sort(on, at[1], at[2], memory);
      gradient.Sum(on, at[0], gradient.keys(memory), at[4], rows, memory);
    }
    int64_t rows;
    SortedGradient gradient;
  };
};

// (grad, indices, segment_ids, dense_output_dim0): only the rows that indices name, in their order.
template <Over kOver>
struct SegmentGradV2Kernel : NamedKernel {
  using NamedKernel::NamedKernel;
  struct Plan {
    Plan(const SegmentGradV2Kernel& kernel, sdk::PrepareContext& c) {
      kernel.Prepare(c, [&](Shapes& s) {
        // How many rows there are is known when it runs.
        gradient = SortedGradient(std::numeric_limits<int64_t>::max(), kOver, s);
        choosing = Choosing(gradient.count(), s);
        ids_at = s.Workspace(8 * gradient.count());
        counting = s.Code("SegmentNamedCount");
        writing = s.Code("SegmentNamed");
      });
    }
    SortedGradient gradient;
    Choosing choosing;
    int64_t ids_at = 0;
    Function counting = nullptr, writing = nullptr;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    const int64_t all_rows = sdk::IndexAt(c.input<void>(3), c.input_view(3).dtype, 0);
    if (all_rows < 0) sdk::Fail(TENON_INVALID_ARGUMENT, "dense_output_dim0 is ", all_rows, "; it must not be negative");
    char* const memory = c.workspace<char>();
    const SortedGradient gradient = plan.gradient.WithRows(all_rows);
    SegmentNamedParams p = {gradient.keys(memory),
                            gradient.count(),
                            all_rows,
                            plan.choosing.sums(memory),
                            c.workspace<int64_t>(plan.ids_at),
                            nullptr,
                            0};
    int64_t rows = 0;
    if (p.count > 0) {
      SubmitTo(*c.frame(), [&](Launcher& on) {
        gradient.Sort(on, c.input<void>(1), c.input<void>(2), memory);
        on(plan.counting, plan.choosing.grid(), p);
        plan.choosing.Scan(on, memory);
      });
      ReadBack(c, plan.choosing.total(memory), {&rows, 1});
    }
    sdk::AllocRows(c, 0, rows, sdk::DimsOf(c.input_view(0)).subspan(1));
    c.AllocOutput(1, sdk::Dims(&rows, 1));
    if (rows == 0) return;
    p.named = c.output<void>(1);
    p.named_bytes = static_cast<int32_t>(sdk::ElementSize(c.output_view(1).dtype));
    SubmitTo(*c.frame(), [&](Launcher& on) {
      on(plan.writing, plan.choosing.grid(), p);
      gradient.Sum(on, c.input<void>(0), p.ids, c.output<void>(0), rows, memory);
    });
  }
};

template <class Set>
constexpr auto& kSegments = sdk::Constraints<typename Set::template Constraint<"T">, sdk::Indices::Constraint<"Tidx">,
                                             sdk::Indices::Constraint<"Tsegmentids">>::list;
template <Over kOver, class Set>
constexpr tenon_kernel_registration Sums(std::string_view op) {
  return PlainKernel<SparseSegmentKernel<kOver, false>>(op, {.constraints = kSegments<Set>, .dynamic_outputs = 1});
}
constexpr tenon_span kNumber[] = {TENON_SPAN("num_segments")};
template <Over kOver, class Set>
constexpr tenon_kernel_registration NumberedSums(std::string_view op) {
  return PlainKernel<SparseSegmentKernel<kOver, true>>(
      op, {.constraints = kSegments<Set>, .host_memory = kNumber, .dynamic_outputs = 1});
}
template <Over kOver>
constexpr tenon_kernel_registration Grads(std::string_view op) {
  return Kernel<SegmentGradKernel<kOver>>(op, {.constraints = kSegments<Floats>});
}
constexpr tenon_span kRowsArgument[] = {TENON_SPAN("dense_output_dim0")};
template <Over kOver>
constexpr tenon_kernel_registration NamedGrads(std::string_view op) {
  return PlainKernel<SegmentGradV2Kernel<kOver>>(
      op, {.constraints = kSegments<Floats>, .host_memory = kRowsArgument, .dynamic_outputs = 0b11});
}

}  // namespace

TENON_GPU_KERNEL(SegmentSum) = PlainKernel<SegmentSumKernel<Over::kOne>>(
    "SegmentSum",
    {.constraints = sdk::Constraints<Numbers::Constraint<"T">, sdk::Indices::Constraint<"Tindices">>::list,
     .dynamic_outputs = 1});
TENON_GPU_KERNEL(SegmentMean) = PlainKernel<SegmentSumKernel<Over::kCount>>(
    "SegmentMean",
    {.constraints = sdk::Constraints<Floats::Constraint<"T">, sdk::Indices::Constraint<"Tindices">>::list,
     .dynamic_outputs = 1});
TENON_GPU_KERNEL(SparseSegmentSum) = Sums<Over::kOne, Numbers>("SparseSegmentSum");
TENON_GPU_KERNEL(SparseSegmentMean) = Sums<Over::kCount, Floats>("SparseSegmentMean");
TENON_GPU_KERNEL(SparseSegmentSqrtN) = Sums<Over::kRoot, Floats>("SparseSegmentSqrtN");
TENON_GPU_KERNEL(SparseSegmentSumWithNumSegments) =
    NumberedSums<Over::kOne, Numbers>("SparseSegmentSumWithNumSegments");
TENON_GPU_KERNEL(SparseSegmentMeanWithNumSegments) =
    NumberedSums<Over::kCount, Floats>("SparseSegmentMeanWithNumSegments");
TENON_GPU_KERNEL(SparseSegmentSqrtNWithNumSegments) =
    NumberedSums<Over::kRoot, Floats>("SparseSegmentSqrtNWithNumSegments");
TENON_GPU_KERNEL(SparseSegmentSumGrad) = Grads<Over::kOne>("SparseSegmentSumGrad");
TENON_GPU_KERNEL(SparseSegmentMeanGrad) = Grads<Over::kCount>("SparseSegmentMeanGrad");
TENON_GPU_KERNEL(SparseSegmentSqrtNGrad) = Grads<Over::kRoot>("SparseSegmentSqrtNGrad");
TENON_GPU_KERNEL(SparseSegmentSumGradV2) = NamedGrads<Over::kOne>("SparseSegmentSumGradV2");
TENON_GPU_KERNEL(SparseSegmentMeanGradV2) = NamedGrads<Over::kCount>("SparseSegmentMeanGradV2");
TENON_GPU_KERNEL(SparseSegmentSqrtNGradV2) = NamedGrads<Over::kRoot>("SparseSegmentSqrtNGradV2");

}  // namespace tenon::gpu
