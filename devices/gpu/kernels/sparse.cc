// SPDX-License-Identifier: Apache-2.0
// SparseToDense, SparseReshape and SparseFillEmptyRows.
#include "code/sparse.h"

#include <limits>

#include "code/move.h"
#include "kernels/slices.h"
#include "kernels/sort.h"
#include "tenon/extras/walk/sparse_shape.h"

namespace tenon::gpu {
namespace {

struct SparseToDenseKernel {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("output_shape"), 1}};
  explicit SparseToDenseKernel(sdk::CreateContext& c) : validate(c.Bool("validate_indices")) {}
  struct Plan {
    Plan(const SparseToDenseKernel& kernel, Shapes& s)
        : validate(kernel.validate), dense(sdk::Count(s.out(0))), one_for_all(s.in(2).empty()), shape(SliceOf(s)),
          changing(s.dtype(2), shape.count, "indices[{0}] is out of bounds: {1} is not in [0, {2})", s),
          fill(s.Code(sdk::Concat("Fill_", sdk::ElementSize(s.dtype(2))))), order(s.Code("SparseOrder")) {
      if (!one_for_all && sdk::Count(s.in(2)) != shape.count) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "sparse_values of shape ", s.in(2), " for ", shape.count, " indices");
      }
      const auto site = [&](const char* what) {
        return s.Site(TENON_INVALID_ARGUMENT,
                      sdk::Concat("indices[{0}] is ", what, ". Many sparse ops require sorted indices."));
      };
      out_of_order = site("out of order");
      repeated = site("repeated");
    }
    static SliceShape SliceOf(const Shapes& s) {
      const sdk::Dims indices = s.in(0), out = s.out(0);
      const int64_t rank = indices.size() > 1 ? indices[1] : 1;
      if (rank != static_cast<int64_t>(out.size())) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "output_shape has ", static_cast<int64_t>(out.size()),
                  " numbers, the indices of shape ", indices, " have ", rank);
      }
      return indices.size() > 1 ? SliceShape(s.input(0), out, BadIndices::kReported)
                                : SliceShape(s.input(0), out[0], 1, BadIndices::kReported);
    }
    void Launch(Launcher& on, char* const* at) const {
      on(fill, Flat(dense, kMoveItems), FillParams{at[3], {}, at[4], dense});
      if (validate && shape.count > 1) {
        on(order, Flat(shape.count),
           SparseOrderParams{{at[0], shape.slices.indices.kind},
                             shape.count,
                             shape.slices.depth,
                             on.Site(out_of_order),
                             on.Site(repeated)});
      }
      changing.Launch(on, shape, one_for_all, at[0], at[2], at[4]);
    }
    bool validate;
    int64_t dense;
    bool one_for_all;
    SliceShape shape;
    Changing<Change::kPut> changing;
    Function fill, order;
    uint64_t out_of_order = 0, repeated = 0;
  };
  bool validate;
};

// The shapes are the host's.
struct SparseReshapeKernel : NamedKernel {
  using NamedKernel::NamedKernel;
  struct Plan {
    Plan(const SparseReshapeKernel& kernel, sdk::PrepareContext& c) {
      kernel.Prepare(c, [&](Shapes& s) {
        for (const int32_t input : {1, 2}) {
          if (sdk::Count(s.in(input)) > kMostSparseDims)
            sdk::Fail(TENON_UNIMPLEMENTED, "indices into ", sdk::Count(s.in(input)), " dims; GPUs take up to ",
                      kMostSparseDims);
        }
        code = s.Code("SparseReshape");
        site = s.Site(TENON_INVALID_ARGUMENT, sdk::kSparseIndexText);
      });
    }
    Function code = nullptr;
    uint64_t site = 0;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    SparseReshapeParams p = {};
    p.indices = c.input<int64_t>(0);
    p.out = c.output<int64_t>(0);
    p.count = sdk::DimsOf(c.input_view(0))[0];
    p.rank = static_cast<int32_t>(sdk::Count(c.input_view(1)));
    p.out_rank = static_cast<int32_t>(sdk::Count(c.input_view(2)));
    int64_t* const shape = c.output<int64_t>(1);
    sdk::FillSparseShape(c.input<int64_t>(1), p.rank, c.input<int64_t>(2), p.out_rank, shape);
    std::copy_n(c.input<int64_t>(1), p.rank, p.dims);
    std::copy_n(shape, p.out_rank, p.out_dims);
    SubmitTo(*c.frame(), [&](Launcher& on) {
      p.site = on.Site(plan.site);
      on(plan.code, Flat(p.count), p);
    });
  }
};
// Values keep their order within a row, so that their rows are sorted.
struct FillEmptyRowsKernel : NamedKernel {
  using NamedKernel::NamedKernel;
  struct Plan {
    Plan(const FillEmptyRowsKernel& kernel, sdk::PrepareContext& c) {
      kernel.Prepare(c, [&](Shapes& s) {
        if (s.in(0).size() != 2 || s.in(0)[1] < 1) sdk::Fail(TENON_INVALID_ARGUMENT, "Dense shape cannot be empty.");
        count = s.in(0)[0];
        sorting = Sorting(count, std::numeric_limits<int64_t>::max(), s);
        keys = s.Code("FillRowsKeys");
        counting = s.Code("FillRowsCount");
        scan = s.Code("ScanTiles");
        put = s.Code(sdk::Concat("FillRowsPut_", sdk::ElementSize(s.dtype(1))));
        site = s.Site(TENON_INVALID_ARGUMENT, "indices({0}, 0) is invalid: {1} is not in [0, {2})");
      });
    }
    int64_t count = 0;
    Sorting sorting;
    Function keys = nullptr, counting = nullptr, scan = nullptr, put = nullptr;
    uint64_t site = 0;
  };

  void Run(const Plan& plan, sdk::RunContext c) const {
    FillRowsParams p = {};
    p.indices = c.input<int64_t>(0);
    p.values = c.input<void>(1);
    p.default_value = c.input<void>(3);
    p.count = plan.count;
    p.rank = c.input_view(0).dl.shape[1];
    p.rows = c.input<int64_t>(2)[0];
    if (p.rows < 0) sdk::Fail(TENON_INVALID_ARGUMENT, "dense_shape[0] is ", p.rows);
    if (p.rows == 0 && p.count != 0)
      sdk::Fail(TENON_INVALID_ARGUMENT,
                "Received SparseTensor with dense_shape[0] = 0 but indices.shape[0] = ", p.count);
    c.AllocOutput(2, sdk::Dims(&p.rows, 1));
    p.is_empty = c.output<bool>(2);
    const int64_t words = p.rows + 1;
    const RunMemory memory(*c.frame(), sdk::Multiply(words, 16));
    auto* const bounds = reinterpret_cast<int64_t*>(memory.data());
    p.bounds = bounds;
    p.starts = bounds + words;
    const int64_t total = p.rows == 0 ? 0 : CountRows(plan, c, &p, bounds);
    const int64_t shape[] = {total, p.rank};
    c.AllocOutput(0, shape);
    c.AllocOutput(1, sdk::Dims(&total, 1));
    c.AllocOutput(3, sdk::Dims(&p.count, 1));
    p.out_indices = c.output<int64_t>(0);
    p.out_values = c.output<void>(1);
    p.map = c.output<int64_t>(3);
    SubmitTo(*c.frame(), [&](Launcher& on) { on(plan.put, Flat(std::max(p.rows, p.count)), p); });
  }

 private:
  static int64_t CountRows(const Plan& plan, const sdk::RunContext& c, FillRowsParams* p, int64_t* bounds) {
    char* const memory = c.workspace<char>();
    Sorting sorting = plan.sorting;
    sorting.SetLimit(static_cast<uint64_t>(p->rows));
    p->keys = sorting.input(memory);
    p->sorted = sorting.keys(memory);
    p->places = sorting.places(memory);
    SubmitTo(*c.frame(), [&](Launcher& on) {
      p->site = on.Site(plan.site);
      on(plan.keys, Flat(p->count), *p);
      sorting.Launch(on, memory);
      sorting.FindBounds(on, memory, bounds, p->rows + 1);
      on(plan.counting, Flat(p->rows), *p);
      ScanSums(on, plan.scan, p->starts, p->rows);
    });
    int64_t total = 0;
    ReadBack(c, p->starts + p->rows, {&total, 1});
    return total;
  }
};

constexpr tenon_span kDenseShape[] = {TENON_SPAN("dense_shape")};
constexpr tenon_span kReshapeArgs[] = {TENON_SPAN("input_shape"), TENON_SPAN("new_shape"), TENON_SPAN("output_shape")};

}  // namespace

TENON_GPU_KERNEL(SparseToDense) = Kernel<SparseToDenseKernel>(
    "SparseToDense",
    {.constraints = sdk::Constraints<sdk::PlainConstraint<"T">, sdk::Indices::Constraint<"Tindices">>::list});
TENON_GPU_KERNEL(SparseReshape) = PlainKernel<SparseReshapeKernel>("SparseReshape", {.host_memory = kReshapeArgs});
TENON_GPU_KERNEL(SparseFillEmptyRows) = PlainKernel<FillEmptyRowsKernel>(
    "SparseFillEmptyRows", {.constraints = sdk::Constraints<sdk::PlainConstraint<"T">>::list,
                            .host_memory = kDenseShape,
                            .dynamic_outputs = TENON_DYNAMIC_ALL});

}  // namespace tenon::gpu
