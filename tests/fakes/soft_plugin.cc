// SPDX-License-Identifier: Apache-2.0
// Three ops of a stranger, x / (1 + |x|) each: one says that it fits 16 bits and has a kernel in them, one says it and
// has none, and one has a kernel and does not say it.
#include <cmath>

#include "tenon/plugin.h"
#include "tenon/sdk/kernel/half.h"
#include "tenon/sdk/kernel/kernel.h"
#include "tenon/sdk/op/op.h"

namespace {

using namespace tenon;

template <class T>
struct SoftSign {
  struct Plan {
    Plan(const SoftSign&, sdk::PrepareContext& c) : count(sdk::Count(c.input(0))) {}
    int64_t count;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    for (int64_t i = 0; i < plan.count; ++i) {
      const auto x = static_cast<float>(c.input<T>(0)[i]);
      c.output<T>(0)[i] = T(x / (1 + std::abs(x)));
    }
  }
};

consteval tenon_op_definition Soft(std::string_view name, std::string_view properties) {
  return sdk::DefineOp({.name = name,
                        .inputs = "x: T",
                        .outputs = "y: T",
                        .attrs = "T: {bfloat16, float}",
                        .doc = "x / (1 + |x|).",
                        .properties = properties,
                        .shape = sdk::ShapeFunction<sdk::SameShape>});
}
constinit const tenon_op_definition kFits = Soft("Test>FitsHalf", "elementwise, fits_half"),
                                    kHasNone = Soft("Test>HasNoHalf", "elementwise, fits_half"),
                                    kSaysNothing = Soft("Test>SaysNothing", "elementwise");
const tenon_op_definition* const kDefinitions[] = {&kFits, &kHasNone, &kSaysNothing};
const tenon_op_package kOps = {TENON_HEAD(tenon_op_package), kDefinitions, TENON_PLUGIN_COUNT(kDefinitions), 0};

template <class T, uint32_t kDtype>
consteval tenon_kernel_registration Of(std::string_view op) {
  return sdk::Registration<SoftSign<T>>(
      op, {.device_type = "CPU", .constraints = sdk::Constraints<sdk::Allowed<"T", kDtype>>::list});
}
constinit const tenon_kernel_registration kFloats[] = {Of<float, TENON_DT_FLOAT>("Test>FitsHalf"),
                                                       Of<float, TENON_DT_FLOAT>("Test>HasNoHalf"),
                                                       Of<float, TENON_DT_FLOAT>("Test>SaysNothing")},
                                          kHalves[] = {Of<sdk::Bfloat16, TENON_DT_BFLOAT16>("Test>FitsHalf"),
                                                       Of<sdk::Bfloat16, TENON_DT_BFLOAT16>("Test>SaysNothing")};
const tenon_kernel_registration* const kRegistrations[] = {&kFloats[0], &kFloats[1], &kFloats[2], &kHalves[0],
                                                           &kHalves[1]};
const tenon_kernel_package kKernels = {TENON_HEAD(tenon_kernel_package), kRegistrations,
                                       TENON_PLUGIN_COUNT(kRegistrations)};
const tenon_capability kCapabilities[] = {TENON_PROVIDES(OPS, &kOps), TENON_PROVIDES(KERNELS, &kKernels)};

}  // namespace

TENON_PLUGIN("tenon.test.soft", "0.1.0", "Ops that may be in 16 bits, or not.", kCapabilities)
