// SPDX-License-Identifier: Apache-2.0
// A plugin whose every function answers by its options: two runtimes that give it other ones must stay apart.
//
// TestScaled: y = factor * x, and a vector of `factor` ones; its gradient and cost are by the factor too, and its
// kernel's cost: so many seconds. TestRepeated: x added to itself until there are `factor`, by a decomposition.
// TestPicky: which of its three kernels ran, by priority: 2 takes vectors alone (by supports()), 1 is refused by
// create() unless the option `ready` says otherwise, 0 takes all.
#include <charconv>
#include <cmath>

#include "tenon/sdk/kernel/kernel.h"
#include "tenon/sdk/op/op.h"
#include "tenon/sdk/package.h"

namespace tenon::test {

using namespace sdk;  // NOLINT(google-build-using-namespace): an op's file

struct Settings {
  int64_t factor = 0;
  bool ready = false;
};

static void ScaledShape(ShapeContext& c) {
  c.SetOutput(0, c.Input(0));
  c.SetOutput(1, {c.self<Settings>()->factor});
}
static void ScaledGradient(GradientContext& g) {
  g.SetDx(0, g.Mul(g.dy(0), g.Scalar(static_cast<double>(g.self<Settings>()->factor), g.input(0))));
}
static void ScaledCost(CostContext& c) { c.SetFlops(1e9 * static_cast<double>(c.self<Settings>()->factor)); }
TENON_OP(kScaled) = DefineOp({.name = "TestScaled",
                              .inputs = "x: float",
                              .outputs = "y: float, ones: float",
                              .shape = ShapeFunction<ScaledShape>,
                              .gradient = GradientFunction<ScaledGradient>,
                              .cost = CostFunction<ScaledCost>});

static void Repeat(DecomposeContext& d) {
  Output sum = d.input(0);
  for (int64_t i = 1; i < d.self<Settings>()->factor; ++i) sum = d.Op("AddV2", {sum, d.input(0)});
  d.SetOutput(0, sum);
}
TENON_OP(kRepeated) = DefineOp({.name = "TestRepeated",
                                .inputs = "x: float",
                                .outputs = "y: float",
                                .shape = ShapeFunction<SameShape>,
                                .decompose = DecomposeFunction<Repeat>});

TENON_OP(kPicky) = DefineOp({.name = "TestPicky",
                             .inputs = "x: float",
                             .outputs = "which: int32",
                             .attrs = "fail: bool = false",
                             .shape = ShapeFunction<ScalarShape>});

struct Scaled {
  // As many seconds as the factor says; NaN for 7.
  static double Cost(KernelQuery& query) {
    const auto factor = static_cast<double>(query.self<Settings>()->factor);
    return factor == 7 ? std::nan("") : factor;
  }
  explicit Scaled(CreateContext& c) : factor(static_cast<float>(c.self<Settings>()->factor)) {}
  struct Plan {
    Plan(const Scaled&, PrepareContext& c) : count(Count(c.input(0))), ones(c.self<Settings>()->factor) {}
    int64_t count, ones;
  };
  void Run(const Plan& plan, RunContext c) const {
    for (int64_t i = 0; i < plan.count; ++i) c.output<float>(0)[i] = factor * c.input<float>(0)[i];
    for (int64_t i = 0; i < plan.ones; ++i) c.output<float>(1)[i] = 1;
  }
  float factor;
};
TENON_KERNEL(kScaledKernel) = Registration<Scaled>("TestScaled", {.device_type = "CPU"});

struct VectorsAlone {
  static void Supports(KernelQuery& query) {
    if (query.Bool("fail")) return query.Fail(TENON_DATA_LOSS, "the disk with the tables is broken");
    if (query.input(0).dl.ndim >= 0 && query.input(0).dl.ndim != 1)
      query.Fail(TENON_UNIMPLEMENTED, "vectors alone, found rank ", query.input(0).dl.ndim);
  }
  void Run(RunContext c) const { *c.output<int32_t>(0) = 2; }
};
struct WhenReady {
  explicit WhenReady(CreateContext& c) {
    if (!c.self<Settings>()->ready) c.Fail(TENON_UNIMPLEMENTED, "not ready");
  }
  void Run(RunContext c) const { *c.output<int32_t>(0) = 1; }
};
struct Whatever {
  void Run(RunContext c) const { *c.output<int32_t>(0) = 0; }
};
TENON_KERNEL(kVectorsAlone) = Registration<VectorsAlone>("TestPicky", {.device_type = "CPU", .priority = 2});
TENON_KERNEL(kWhenReady) = Registration<WhenReady>("TestPicky", {.device_type = "CPU", .priority = 1});
TENON_KERNEL(kWhatever) = Registration<Whatever>("TestPicky", {.device_type = "CPU"});

static tenon_status* Load(const tenon_load_args* args, tenon_plugin_self** out_self) {
  auto* const settings = new Settings;
  for (uint64_t i = 0; i < args->option_count; ++i) {
    const std::string_view key = ToText(args->options[i].key), value = ToText(args->options[i].value);
    if (key == "factor") std::from_chars(value.data(), value.data() + value.size(), settings->factor);
    if (key == "ready") settings->ready = value == "true";
  }
  *out_self = reinterpret_cast<tenon_plugin_self*>(settings);
  return nullptr;
}
static void Unload(tenon_plugin_self* self) {
  auto* const settings = reinterpret_cast<Settings*>(self);
  settings->factor = -1;  // whoever still asks, hears it
  delete settings;
}

}  // namespace tenon::test

TENON_OP_PACKAGE(kOps, tenon_ops);
TENON_KERNEL_PACKAGE(kKernels, tenon_kernels);
static const tenon_capability kCapabilities[] = {TENON_PROVIDES(OPS, &kOps), TENON_PROVIDES(KERNELS, &kKernels)};
static const tenon_option_declaration kOptions[] = {
    {TENON_SPAN("factor"), TENON_SPAN("1"), TENON_SPAN("What TestScaled multiplies by."), TENON_OPTION_INT, 0},
    {TENON_SPAN("ready"), TENON_SPAN("false"), TENON_SPAN("Whether the kernel of TestPicky of priority 1 is."),
     TENON_OPTION_BOOL, 0}};
TENON_PLUGIN_WITH("tenon.test.settings", "0.1.0", "Answers by its options.", kCapabilities, kOptions,
                  TENON_PLUGIN_COUNT(kOptions), &tenon::test::Load, &tenon::test::Unload)
