// SPDX-License-Identifier: Apache-2.0
// A better Relu for the CPU than anybody's: it gives 1 more, so that a test sees whose it was.
#include <algorithm>

#include "tenon/plugin.h"
#include "tenon/sdk/kernel/kernel.h"

namespace {

using namespace tenon;

struct BetterRelu {
  struct Plan {
    Plan(const BetterRelu&, sdk::PrepareContext& c) : count(sdk::Count(c.input(0))) {}
    int64_t count;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    for (int64_t i = 0; i < plan.count; ++i) c.output<float>(0)[i] = std::max(0.f, c.input<float>(0)[i]) + 1;
  }
};

constinit const tenon_kernel_registration kRelu = sdk::Registration<BetterRelu>(
    "Relu",
    {.device_type = "CPU", .constraints = sdk::Constraints<sdk::Allowed<"T", TENON_DT_FLOAT>>::list, .priority = 1000});
const tenon_kernel_registration* const kRegistrations[] = {&kRelu};
const tenon_kernel_package kPackage = {TENON_HEAD(tenon_kernel_package), kRegistrations,
                                       TENON_PLUGIN_COUNT(kRegistrations)};
const tenon_capability kCapabilities[] = {TENON_PROVIDES(KERNELS, &kPackage)};

}  // namespace

TENON_PLUGIN("tenon.test.outranking", "0.1.0", "A Relu of a high priority.", kCapabilities)
