// SPDX-License-Identifier: Apache-2.0
// SparseTensorDenseMatMul: sorted by the row of the product, sums of the dense matrix's rows, each scaled.
#include "kernels/move.h"
#include "kernels/segment_sum.h"
#include "kernels/sort.h"

namespace tenon::gpu {
namespace {

using Multiplied = Types<float, double, int32_t, sdk::Half, sdk::Bfloat16>;

struct SparseProductKernel {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("a_shape"), 2}};
  explicit SparseProductKernel(sdk::CreateContext& c)
      : adjoint_a(c.Bool("adjoint_a")), adjoint_b(c.Bool("adjoint_b")) {}
  struct Plan {
    Plan(const SparseProductKernel& kernel, Shapes& s)
        : count(sdk::Count(s.in(1))),
          rows(s.Integer(2, kernel.adjoint_a ? 1 : 0)),
          inner(s.Integer(2, kernel.adjoint_a ? 0 : 1)),
          turned(kernel.adjoint_a ? 1 : 0),
          kind(KindOf(s.dtype(0))) {
      const sdk::Dims b = s.in(3), out = s.out(0);
      const int64_t depth = b[kernel.adjoint_b ? 1 : 0];
      if (depth != inner)
        sdk::Fail(TENON_INVALID_ARGUMENT, "Cannot multiply A and B because inner dimension does not match: ", inner,
                  " vs. ", depth);
      if (sdk::Count(s.in(0)) != 2 * count || out[0] != rows)
        sdk::Fail(TENON_INVALID_ARGUMENT, "a_indices of shape ", s.in(0), " for ", count, " values");
      const uint32_t dtype = s.dtype(1);
      const auto element = static_cast<int64_t>(sdk::ElementSize(dtype));
      sorting = Sorting(count, static_cast<uint64_t>(rows), s);
      rows_at = s.Workspace(8 * count);
      scales_at = s.Workspace(SumBytes(dtype) * count);
      keys_code = s.Code("SparseProductKeys");
      rows_code = s.Code("SparseProductRows", dtype);
      row = s.Site(TENON_INVALID_ARGUMENT, sdk::Concat("m ({1}) from index[{0},", turned, "] out of bounds (>={2})"));
      deep =
          s.Site(TENON_INVALID_ARGUMENT, sdk::Concat("k ({1}) from index[{0},", 1 - turned, "] out of bounds (>={2})"));
      if (kernel.adjoint_b) {
        Walk walk;
        walk.Add(inner, 1, out[1]);
        walk.Add(out[1], inner, 1);
        turning = Moving(walk, element, s);
        turned_at = s.Workspace(sdk::Multiply(sdk::Count(b), element));
      }
      turns = kernel.adjoint_b;
      summing = SegmentSumming(count, out[1], dtype, s);
    }
    void Launch(Launcher& on, char* const* at) const {
      char* const memory = on.Workspace<char>(0);
      auto* const row_of = on.Workspace<int64_t>(rows_at);
      if (count > 0) {
        on(keys_code, Flat(count),
           SparseKeyParams{
               {at[0], kind}, count, rows, inner, turned, sorting.input(memory), on.Site(row), on.Site(deep)});
        sorting.Launch(on, memory);
        on(rows_code, Flat(count),
           SparseRowParams{sorting.places(memory), {at[0], kind}, at[1], count, turned, row_of, memory + scales_at});
        if (turns) turning.Launch(on, at[3], memory + turned_at);
      }
      SegmentSumParams p = {};
      p.x = turns ? memory + turned_at : at[3];
      p.x_rows = inner;
      p.rows = {row_of, IndexKind::kInt64};
      p.ids = {sorting.keys(memory), IndexKind::kInt64};
      p.scales = memory + scales_at;
      p.out = at[4];
      p.out_rows = rows;
      p.row = on.Site(deep);
      summing.Launch(on, memory, p);
    }
    int64_t count, rows, inner, rows_at = 0, scales_at = 0, turned_at = 0;
    int32_t turned;
    bool turns = false;
    IndexKind kind;
    Sorting sorting;
    Moving turning;
    SegmentSumming summing;
    Function keys_code = nullptr, rows_code = nullptr;
    uint64_t row = 0, deep = 0;
  };
  bool adjoint_a, adjoint_b;
};

}  // namespace

TENON_GPU_KERNEL(SparseTensorDenseMatMul) = Kernel<SparseProductKernel>(
    "SparseTensorDenseMatMul",
    {.constraints = sdk::Constraints<Multiplied::Constraint<"T">, sdk::Indices::Constraint<"Tindices">>::list});

}  // namespace tenon::gpu
