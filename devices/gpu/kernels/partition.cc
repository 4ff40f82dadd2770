// SPDX-License-Identifier: Apache-2.0
// DynamicPartition, by a stable sort of the parts; DynamicStitch, where the last row that names a place owns it;
// InvertPermutation. Of these two int32 is the host's (shape.cc).
#include "code/partition.h"

#include <limits>
#include <vector>

#include "code/gather.h"
#include "kernels/move.h"
#include "kernels/sort.h"
#include "tenon/extras/walk/row_shape.h"

namespace tenon::gpu {
namespace {

int64_t BytesOf(uint32_t dtype) { return static_cast<int64_t>(sdk::ElementSize(dtype)); }

// ---- DynamicPartition ----

struct DynamicPartitionKernel : NamedKernel {
  using NamedKernel::NamedKernel;
  struct Plan {
    Plan(const DynamicPartitionKernel& kernel, sdk::PrepareContext& c) {
      kernel.Prepare(c, [&](Shapes& s) {
        count = sdk::Count(s.in(1));
        parts = s.output_count();
        width = sdk::Multiply(sdk::Count(sdk::TailOf("partitions", s.in(1), s.in(0))), BytesOf(s.dtype(0)));
        sorting = Sorting(count, static_cast<uint64_t>(parts), s);
        bounds_at = s.Workspace(8 * (parts + 1));
        keys = s.Code("PartitionKeys");
        gather = UnitCode("Gather", 16, s);
        site = s.Site(TENON_INVALID_ARGUMENT, "partitions[{0}] = {1} is not in [0, {2})");
      });
    }
    int64_t count = 0, parts = 0, width = 0, bounds_at = 0;
    Sorting sorting;
    Function keys = nullptr;
    UnitCode gather;
    uint64_t site = 0;
  };

  void Run(const Plan& plan, sdk::RunContext c) const {
    std::vector<int64_t> bounds(static_cast<size_t>(plan.parts) + 1, 0);
    if (plan.count > 0) Count(plan, c, bounds);
    const sdk::Dims tail = sdk::DimsOf(c.input_view(0)).subspan(static_cast<size_t>(c.input_view(1).dl.ndim));
    for (int32_t k = 0; k < c.output_count(); ++k) {
      const auto at = static_cast<size_t>(k);
      sdk::AllocRows(c, k, bounds[at + 1] - bounds[at], tail);
    }
    if (plan.count == 0 || plan.width == 0) return;
    SubmitTo(*c.frame(), [&](Launcher& on) {
      for (int32_t k = 0; k < c.output_count(); ++k) {
        const auto at = static_cast<size_t>(k);
        Take(plan, c, on, k, bounds[at], bounds[at + 1]);
      }
    });
  }

 private:
  static void Count(const Plan& plan, const sdk::RunContext& c, std::span<int64_t> bounds) {
    char* const memory = c.workspace<char>();
    auto* const words = c.workspace<int64_t>(plan.bounds_at);
    SubmitTo(*c.frame(), [&](Launcher& on) {
      on(plan.keys, Flat(plan.count),
         PartitionParams{c.input<int32_t>(1), plan.sorting.input(memory), plan.count, plan.parts, on.Site(plan.site)});
      plan.sorting.Launch(on, memory);
      plan.sorting.FindBounds(on, memory, words, plan.parts + 1);
    });
    ReadBack(c, words, bounds);
  }
  // The rows of one part: those at sorted places [begin, end).
  static void Take(const Plan& plan, const sdk::RunContext& c, Launcher& on, int32_t k, int64_t begin, int64_t end) {
    const auto *const data = c.input<char>(0);
    auto* const out = c.output<char>(k);
    const int64_t unit = UnitCode::Dividing(plan.gather.For(data, out), plan.width);
    GatherParams p = {};
    p.params = data;
    p.indices = {plan.sorting.places(c.workspace<char>()) + begin, IndexKind::kInt32};
    p.out = out;
    p.inner = DimOf(plan.width / unit);
    p.count = DimOf(end - begin);
    p.outer = DimOf(1);
    p.rows = plan.count;
    p.total = (end - begin) * p.inner.size;
    p.site = on.Site(plan.site);
    on(plan.gather[unit], Flat(p.total, kMoveItems), p);
  }
};

// ---- DynamicStitch ----

struct DynamicStitchKernel : NamedKernel {
  using NamedKernel::NamedKernel;
  struct Plan {
    Plan(const DynamicStitchKernel& kernel, sdk::PrepareContext& c) {
      kernel.Prepare(c, [&](Shapes& s) {
        const sdk::StitchShape stitch(s.inputs(), s.input_count());
        sdk::CheckRank(stitch.tail);
        n = stitch.n;
        width = sdk::Multiply(stitch.width, BytesOf(s.dtype(n)));
        for (int32_t k = 0; k < n; ++k) {
          counts.push_back(sdk::Count(s.in(k)));
          total += counts.back();
          sites.push_back(s.Site(TENON_INVALID_ARGUMENT, sdk::Concat("indices[", k, "][{0}] = {1} is negative")));
        }
        if (total > std::numeric_limits<int32_t>::max())
          sdk::Fail(TENON_UNIMPLEMENTED, "GPUs stitch at most 2^31 - 1 rows; these are ", total);
        rows_at = s.Workspace(8);
        rows = s.Code("StitchRows");
        claim = s.Code("StitchClaim");
        put = UnitCode("StitchPut", 16, s);
      });
    }
    int32_t n = 0;
    int64_t width = 0, total = 0, rows_at = 0;
    std::vector<int64_t> counts;
    std::vector<uint64_t> sites;
    Function rows = nullptr, claim = nullptr;
    UnitCode put;
  };

  void Run(const Plan& plan, sdk::RunContext c) const {
    int64_t rows = 0;
    if (plan.total > 0) {
      SubmitTo(*c.frame(), [&](Launcher& on) {
        on.Fill(c.workspace<void>(plan.rows_at), 0, 8);
        ForEach(plan, c, 0, nullptr, on,
                [&](const StitchParams& p, int32_t) { on(plan.rows, GridOver(on, p.count, 8), p); });
      });
      ReadBack(c, c.workspace<int64_t>(plan.rows_at), {&rows, 1});
    }
    sdk::AllocRows(c, 0, rows, sdk::StitchShape(c.frame()->inputs, c.input_count()).tail);
    if (rows == 0 || plan.width == 0) return;
    const RunMemory memory(*c.frame(), sdk::Multiply(rows, 4));
    auto* const owners = reinterpret_cast<uint32_t*>(memory.data());
    SubmitTo(*c.frame(), [&](Launcher& on) {
      on.Fill(owners, 0, rows * 4);
      on.Fill(c.output<void>(0), 0, rows * plan.width);
      ForEach(plan, c, rows, owners, on, [&](const StitchParams& p, int32_t) { on(plan.claim, Flat(p.count), p); });
      ForEach(plan, c, rows, owners, on, [&](const StitchParams& p, int32_t k) { Put(plan, c, on, p, k); });
    });
  }

 private:
  template <class Visit>
  static void ForEach(const Plan& plan, const sdk::RunContext& c, int64_t rows, uint32_t* owners, Launcher& on,
                      const Visit& visit) {
    int64_t first = 1;
    for (int32_t k = 0; k < plan.n; ++k) {
      const auto at = static_cast<size_t>(k);
      const StitchParams p = {
          c.input<int32_t>(k),          plan.counts[at],        c.workspace<uint64_t>(plan.rows_at), owners, rows,
          static_cast<uint32_t>(first), on.Site(plan.sites[at])};
      if (p.count > 0) visit(p, k);
      first += p.count;
    }
  }
  static void Put(const Plan& plan, const sdk::RunContext& c, Launcher& on, const StitchParams& of, int32_t k) {
    const auto* const data = c.input<char>(plan.n + k);
    auto* const out = c.output<char>(0);
    const int64_t unit = UnitCode::Dividing(plan.put.For(data, out), plan.width);
    const Dim inner = DimOf(plan.width / unit);
    on(plan.put[unit], Flat(of.count * inner.size),
       StitchPutParams{of.indices, of.owners, data, out, of.count * inner.size, of.owner_count, inner, of.first});
  }
};

// ---- InvertPermutation ----

struct InvertPermutationKernel {
  struct Plan {
    Plan(const InvertPermutationKernel&, Shapes& s)
        : count(sdk::Count(s.in(0))),
          bytes(sdk::Multiply(count, BytesOf(s.dtype(0)))),
          outside(s.Site(TENON_INVALID_ARGUMENT, "{1} is not between 0 and {2}")),
          repeated(s.Site(TENON_INVALID_ARGUMENT, "{1} is duplicated in the input.")),
          code(s.Code("InvertPermutation")) {}
    void Launch(Launcher& on, char* const* at) const {
      on.Fill(at[1], 0xff, bytes);
      on(code, Flat(count),
         InvertParams{As<const int64_t>(at[0]), As<uint64_t>(at[1]), count, on.Site(outside), on.Site(repeated)});
    }
    int64_t count, bytes;
    uint64_t outside, repeated;
    Function code;
  };
};

constexpr auto& kPlain = sdk::Constraints<sdk::PlainConstraint<"T">>::list;

}  // namespace

TENON_GPU_KERNEL(DynamicPartition) = PlainKernel<DynamicPartitionKernel>("DynamicPartition",
                                                                         {.constraints = kPlain,
                                                                          .dynamic_outputs = TENON_DYNAMIC_ALL});
TENON_GPU_KERNEL(DynamicStitch) = PlainKernel<DynamicStitchKernel>("DynamicStitch",
                                                                   {.constraints = kPlain, .dynamic_outputs = 1});
TENON_GPU_KERNEL(InvertPermutation) = Kernel<InvertPermutationKernel>(
    "InvertPermutation", {.constraints = sdk::Constraints<sdk::Allowed<"T", TENON_DT_INT64>>::list});

}  // namespace tenon::gpu
