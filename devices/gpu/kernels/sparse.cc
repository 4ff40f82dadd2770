// SPDX-License-Identifier: Apache-2.0
// SparseToDense and SparseReshape.
#include "code/sparse.h"

#include "code/move.h"
#include "kernels/slices.h"
#include "tenon/sdk/sparse_shape.h"

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
        return s.Site(TENON_INVALID_ARGUMENT, sdk::Concat("indices[{0}] is ", what, ". Many sparse ops require sorted indices."));
      };
      out_of_order = site("out of order");
      repeated = site("repeated");
    }
    static SliceShape SliceOf(const Shapes& s) {
      const sdk::Dims indices = s.in(0), out = s.out(0);
      const int64_t rank = indices.size() > 1 ? indices[1] : 1;
      if (rank != static_cast<int64_t>(out.size())) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "output_shape has ", static_cast<int64_t>(out.size()), " numbers, the indices of shape ", indices, " have ", rank);
      }
      return indices.size() > 1 ? SliceShape(s.input(0), out, BadIndices::kReported) : SliceShape(s.input(0), out[0], 1, BadIndices::kReported);
    }
    void Launch(Launcher& on, char* const* at) const {
      on(fill, Flat(dense, kMoveItems), FillParams{at[3], {}, at[4], dense});
      if (validate && shape.count > 1) {
        on(order, Flat(shape.count), SparseOrderParams{{at[0], shape.slices.indices.kind}, shape.count, shape.slices.depth, on.Site(out_of_order), on.Site(repeated)});
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
          if (sdk::Count(s.in(input)) > kMostSparseDims) sdk::Fail(TENON_UNIMPLEMENTED, "indices into ", sdk::Count(s.in(input)), " dims; GPUs take up to ", kMostSparseDims);
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
constexpr tenon_span kReshapeArgs[] = {TENON_SPAN("input_shape"), TENON_SPAN("new_shape"), TENON_SPAN("output_shape")};

}  // namespace

TENON_GPU_REGISTER(SparseToDense) = Kernel<SparseToDenseKernel>(
    "SparseToDense", {.constraints = sdk::Constraints<sdk::PlainConstraint<"T">, sdk::Indices::Constraint<"Tindices">>::list});
TENON_GPU_REGISTER(SparseReshape) = PlainKernel<SparseReshapeKernel>("SparseReshape", {.host_memory = kReshapeArgs});

}  // namespace tenon::gpu
