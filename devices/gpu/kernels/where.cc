// SPDX-License-Identifier: Apache-2.0
// Where: the host waits for the number of what is not zero, and then has the coordinates written.
#include "code/where.h"

#include "kernels/choose.h"

namespace tenon::gpu {
namespace {

using WhereTypes = sdk::Numbers::And<bool>;

struct WhereKernel : NamedKernel {
  using NamedKernel::NamedKernel;
  struct Plan {
    Plan(const WhereKernel& kernel, sdk::PrepareContext& c) {
      kernel.Prepare(c, [&](Shapes& s) {
        const sdk::Dims dims = s.in(0);
        if (dims.size() > kMostWhereDims)
          sdk::Fail(TENON_UNIMPLEMENTED, "a tensor of rank ", dims.size(), "; GPUs take up to ", kMostWhereDims);
        params.count = sdk::Count(dims);
        params.rank = static_cast<int32_t>(dims.size());
        for (size_t d = 0; d < dims.size(); ++d) params.dims[d] = DimOf(dims[d]);
        choosing = Choosing(params.count, s);
        count = s.Code("CountNonzero", UnsignedType(s.dtype(0)));
        write = s.Code("WriteNonzero", UnsignedType(s.dtype(0)));
      });
    }
    WhereParams params = {};
    Choosing choosing;
    Function count, write;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    char* const memory = c.workspace<char>();
    WhereParams p = plan.params;
    p.x = c.input<void>(0);
    p.sums = plan.choosing.sums(memory);
    int64_t shape[2] = {0, p.rank};
    if (p.count > 0) {
      SubmitTo(*c.frame(), [&](Launcher& on) {
        on(plan.count, plan.choosing.grid(), p);
        plan.choosing.Scan(on, memory);
      });
      ReadBack(c, plan.choosing.total(memory), {shape, 1});
    }
    c.AllocOutput(0, shape);
    if (shape[0] == 0 || p.rank == 0) return;
    p.out = c.output<int64_t>(0);
    p.found = shape[0];
    SubmitTo(*c.frame(), [&](Launcher& on) { on(plan.write, plan.choosing.grid(), p); });
  }
};

}  // namespace

TENON_GPU_KERNEL(Where) = PlainKernel<WhereKernel>("Where",
                                                   {.constraints = sdk::Constraints<WhereTypes::Constraint<"T">>::list,
                                                    .dynamic_outputs = 1});

}  // namespace tenon::gpu
