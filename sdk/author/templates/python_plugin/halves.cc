// SPDX-License-Identifier: Apache-2.0
// An op in C++ with its kernel and its gradient: Halves has half of each number.
#include "tenon/sdk/kernel/kernel.h"
#include "tenon/sdk/op/op.h"
#include "tenon/sdk/package.h"

namespace halves {
namespace sdk = tenon::sdk;

static void Gradient(sdk::GradientContext& g) { g.SetDx(0, g.Op("Halves", {g.dy(0)}, {})); }

TENON_OP(kHalves) = sdk::DefineOp({
    .name = "Halves",
    .inputs = "x: float",
    .outputs = "y: float",
    .doc = "Half of each number.",
    .properties = "elementwise",
    .shape = sdk::ShapeFunction<sdk::SameShape>,
    .gradient = sdk::GradientFunction<Gradient>,
});

struct Halves {
  struct Plan {
    Plan(const Halves&, sdk::PrepareContext& c) : count(sdk::Count(c.input(0))) {}
    int64_t count;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    const float* x = c.input<float>(0);
    float* y = c.output<float>(0);
    c.ParallelFor(plan.count, 0.5, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = 0.5f * x[i];
    });
  }
};
TENON_KERNEL(kHalvesKernel) = sdk::Registration<Halves>("Halves", {.device_type = "CPU"});

}  // namespace halves

TENON_OP_AND_KERNEL_PLUGIN("example.halves", "1.0.0", "The op Halves.")
