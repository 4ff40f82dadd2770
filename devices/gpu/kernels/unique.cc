// SPDX-License-Identifier: Apache-2.0
// Unique and UniqueWithCounts: values in the order in which they come first.
#include "code/unique.h"

#include <bit>
#include <limits>

#include "kernels/choose.h"

namespace tenon::gpu {
namespace {

using UniqueTypes = sdk::Numbers::And<bool>;

template <bool kCounts>
struct UniqueKernel : NamedKernel {
  using NamedKernel::NamedKernel;
  struct Plan {
    Plan(const UniqueKernel& kernel, sdk::PrepareContext& c) {
      kernel.Prepare(c, [&](Shapes& s) { Make(s); });
    }
    void Make(Shapes& s) {
      count = sdk::Count(s.in(0));
      if (count > std::numeric_limits<int32_t>::max() / 2)
        sdk::Fail(TENON_UNIMPLEMENTED, "GPUs tell at most 2^30 elements apart; these are ", count);
      const uint32_t dtype = UnsignedType(s.dtype(0));
      slots = std::bit_ceil(static_cast<uint32_t>(2 * count + 1));
      taken_at = s.Workspace(4 * static_cast<int64_t>(slots));
      first_at = s.Workspace(4 * static_cast<int64_t>(slots));
      slots_at = s.Workspace(4 * count);
      choosing = Choosing(count, s);
      claim = s.Code("UniqueClaim", dtype);
      number = s.Code("UniqueNumber", dtype);
      counting = s.Code("UniqueCount");
      put = s.Code("UniquePut");
    }
    UniqueParams Params(const sdk::RunContext& c) const {
      UniqueParams p = {};
      p.x = c.input<void>(0);
      p.count = count;
      p.mask = slots - 1;
      p.taken = c.workspace<uint32_t>(taken_at);
      p.first = c.workspace<uint32_t>(first_at);
      p.slots = c.workspace<uint32_t>(slots_at);
      p.sums = choosing.sums(c.workspace<char>());
      p.numbers = c.output<void>(1);
      p.index_bytes = static_cast<int32_t>(sdk::ElementSize(c.output_view(1).dtype));
      return p;
    }
    int64_t count = 0, taken_at = 0, first_at = 0, slots_at = 0;
    uint32_t slots = 1;
    Choosing choosing;
    Function claim, number, counting, put;
  };

  void Run(const Plan& plan, sdk::RunContext c) const {
    UniqueParams p = plan.Params(c);
    int64_t found = 0;
    if (p.count > 0) {
      SubmitTo(*c.frame(), [&](Launcher& on) {
        on.Fill(p.taken, 0, 4 * static_cast<int64_t>(plan.slots));
        on.Fill(p.first, 0xff, 4 * static_cast<int64_t>(plan.slots));
        on(plan.claim, Flat(p.count), p);
        on(plan.counting, plan.choosing.grid(), p);
        plan.choosing.Scan(on, c.workspace<char>());
      });
      ReadBack(c, plan.choosing.total(c.workspace<char>()), {&found, 1});
    }
    c.AllocOutput(0, sdk::Dims(&found, 1));
    if (kCounts) c.AllocOutput(2, sdk::Dims(&found, 1));
    if (found == 0) return;
    p.values = c.output<void>(0);
    if (kCounts) p.counts = c.output<void>(2);
    SubmitTo(*c.frame(), [&](Launcher& on) {
      on(plan.number, plan.choosing.grid(), p);
      if (kCounts) on.Fill(p.counts, 0, found * p.index_bytes);
      on(plan.put, Flat(p.count), p);
    });
  }
};

constexpr auto& kTypes = sdk::Constraints<UniqueTypes::Constraint<"T">>::list;

}  // namespace

TENON_GPU_KERNEL(Unique) = PlainKernel<UniqueKernel<false>>("Unique", {.constraints = kTypes, .dynamic_outputs = 1});
TENON_GPU_KERNEL(UniqueWithCounts) = PlainKernel<UniqueKernel<true>>("UniqueWithCounts",
                                                                     {.constraints = kTypes, .dynamic_outputs = 0b101});

}  // namespace tenon::gpu
