// SPDX-License-Identifier: Apache-2.0
// A Relu for the CPU that never returns, whatever is cancelled.
#include <unistd.h>

#include "tenon/plugin.h"
#include "tenon/sdk/kernel/kernel.h"

namespace {

using namespace tenon;

struct EndlessRelu {
  struct Plan {
    Plan(const EndlessRelu&, sdk::PrepareContext&) {}
  };
  void Run(const Plan&, sdk::RunContext) const {
    for (;;) pause();
  }
};

constinit const tenon_kernel_registration kRelu = sdk::Registration<EndlessRelu>(
    "Relu",
    {.device_type = "CPU", .constraints = sdk::Constraints<sdk::Allowed<"T", TENON_DT_FLOAT>>::list, .priority = 1000});
const tenon_kernel_registration* const kRegistrations[] = {&kRelu};
const tenon_kernel_package kPackage = {TENON_HEAD(tenon_kernel_package), kRegistrations,
                                       TENON_PLUGIN_COUNT(kRegistrations)};
const tenon_capability kCapabilities[] = {TENON_PROVIDES(KERNELS, &kPackage)};

}  // namespace

TENON_PLUGIN("tenon.test.endless", "0.1.0", "A Relu that never returns.", kCapabilities)
