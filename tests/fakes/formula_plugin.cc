// SPDX-License-Identifier: Apache-2.0
// A stranger's ops that say what they compute, with kernels that nobody can fuse: without tile functions.
#include <cmath>
#include <cstdint>
#include <string_view>

#include "tenon/plugin.h"
#include "tenon/sdk/kernel/element.h"
#include "tenon/sdk/kernel/half.h"
#include "tenon/sdk/kernel/kernel.h"
#include "tenon/sdk/op/op.h"

namespace {

using namespace tenon;

// As a formula's values between two functions are.
template <class T>
struct WideOf {
  using Type = float;
};
template <>
struct WideOf<double> {
  using Type = double;
};
template <>
struct WideOf<int32_t> {
  using Type = int32_t;
};

// One element of one or two inputs, of which the second may be one for all.
template <class T, class Rule, class Result = T>
struct Each {
  using Wide = typename WideOf<T>::Type;
  explicit Each(sdk::CreateContext& c) : rule(c) {}
  struct Plan {
    Plan(const Each&, sdk::PrepareContext& c)
        : count(sdk::Count(c.input(0))), step(c.input_count() > 1 && sdk::Count(c.input(1)) == count ? 1 : 0) {}
    int64_t count, step;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    const T* const y = c.input_count() > 1 ? c.input<T>(1) : c.input<T>(0);
    for (int64_t i = 0; i < plan.count; ++i)
      c.output<Result>(0)[i] =
          Result(rule(static_cast<Wide>(c.input<T>(0)[i]), static_cast<Wide>(y[i * plan.step])));
  }
  Rule rule;
};

struct Blend {
  explicit Blend(sdk::CreateContext& c) : weight(c.Float("weight")) {}
  template <class Wide>
  Wide operator()(Wide x, Wide y) const {
    const auto of_x = static_cast<Wide>(weight), of_y = static_cast<Wide>(1 - static_cast<double>(weight));
    return x * of_x + y * of_y;
  }
  float weight;
};
struct Swish {
  explicit Swish(sdk::CreateContext&) {}
  template <class Wide>
  Wide operator()(Wide x, Wide) const {
    return x / (1 + std::exp(-x));
  }
};
struct Inside {
  explicit Inside(sdk::CreateContext& c) : low(c.Float("low")), high(c.Float("high")) {}
  template <class Wide>
  bool operator()(Wide x, Wide) const {
    return x >= static_cast<Wide>(low) && x < static_cast<Wide>(high);
  }
  float low, high;
};
struct Wave {
  explicit Wave(sdk::CreateContext&) {}
  template <class Wide>
  Wide operator()(Wide x, Wide) const {
    return std::sin(2 * x);
  }
};
struct Scale {
  explicit Scale(sdk::CreateContext&) {}
  template <class Wide>
  Wide operator()(Wide x, Wide factor) const {
    return x * factor;
  }
};
struct Raise {
  explicit Raise(sdk::CreateContext&) {}
  template <class Wide>
  Wide operator()(Wide x, Wide base) const {
    return std::pow(base, x);
  }
};
struct Weigh {
  explicit Weigh(sdk::CreateContext&) {}
  int32_t operator()(int32_t x, int32_t y) const { return 3 * x + y; }
};

// Minus x, whatever the text beside it says.
struct Labelled {
  struct Plan {
    Plan(const Labelled&, sdk::PrepareContext& c) : count(sdk::Count(c.input(0))) {}
    int64_t count;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    for (int64_t i = 0; i < plan.count; ++i) c.output<float>(0)[i] = -c.input<float>(0)[i];
  }
};

void ScaleShape(sdk::ShapeContext& c) {
  c.WithRank(1, 0);
  c.SetOutput(0, c.Input(0));
}

constexpr std::string_view kReals = "T: {bfloat16, half, float, double}";
constinit const tenon_op_definition
    kBlend = sdk::DefineOp(
        {.name = "Test>Blend",
         .inputs = "x: T, y: T",
         .outputs = "z: T",
         .attrs = "weight: float = 0.25; T: {bfloat16, half, float, double}",
         .properties = "elementwise, computes(add(mul(x, weight), mul(y, sub(1, weight))))",
         .shape = sdk::ShapeFunction<sdk::EqualShapes>}),
    kSwish = sdk::DefineOp({.name = "Test>Swish",
                            .inputs = "x: T",
                            .outputs = "y: T",
                            .attrs = kReals,
                            .properties = "elementwise, computes(mul(x, sigmoid(x)))",
                            .shape = sdk::ShapeFunction<sdk::SameShape>}),
    kInside = sdk::DefineOp(
        {.name = "Test>Inside",
         .inputs = "x: T",
         .outputs = "y: bool",
         .attrs = "low: float = -1; high: float = 1; T: {bfloat16, half, float, double}",
         .properties = "elementwise, computes(logical_and(greater_equal(x, low), less(x, high)))",
         .shape = sdk::ShapeFunction<sdk::SameShape>}),
    kWave = sdk::DefineOp({.name = "Test>Wave",
                           .inputs = "x: T",
                           .outputs = "y: T",
                           .attrs = kReals,
                           .properties = "elementwise, computes(sin(mul(x, 2)))",
                           .shape = sdk::ShapeFunction<sdk::SameShape>}),
    kScale = sdk::DefineOp({.name = "Test>Scale",
                            .inputs = "x: T, factor: T",
                            .outputs = "y: T",
                            .attrs = kReals,
                            .properties = "elementwise(x), computes(mul(x, factor))",
                            .shape = sdk::ShapeFunction<ScaleShape>}),
    kRaise = sdk::DefineOp({.name = "Test>Raise",
                            .inputs = "x: T, base: T",
                            .outputs = "y: T",
                            .attrs = kReals,
                            .properties = "elementwise(x), computes(pow(base, x))",
                            .shape = sdk::ShapeFunction<ScaleShape>}),
    kLabelled = sdk::DefineOp({.name = "Test>Labelled",
                               .inputs = "x: float, label: string",
                               .outputs = "y: float",
                               .properties = "elementwise(x), computes(neg(x))",
                               .shape = sdk::ShapeFunction<sdk::SameShape>}),
    kWeigh = sdk::DefineOp({.name = "Test>Weigh",
                            .inputs = "x: int32, y: int32",
                            .outputs = "z: int32",
                            .properties = "elementwise, computes(add(mul(x, 3), y))",
                            .shape = sdk::ShapeFunction<sdk::EqualShapes>});
const tenon_op_definition* const kDefinitions[] = {&kBlend, &kSwish, &kInside, &kWave, &kScale, &kRaise,
                                                   &kLabelled, &kWeigh};
const tenon_op_package kOps = {TENON_HEAD(tenon_op_package), kDefinitions, TENON_PLUGIN_COUNT(kDefinitions), 0};

template <class T, class Rule, class Result = T>
consteval tenon_kernel_registration Of(std::string_view op) {
  return sdk::Registration<Each<T, Rule, Result>>(
      op, {.device_type = "CPU", .constraints = sdk::Constraints<sdk::Allowed<"T", sdk::DtypeOf<T>::value>>::list});
}
template <class T>
constinit const tenon_kernel_registration kOfType[] = {
    Of<T, Blend>("Test>Blend"), Of<T, Swish>("Test>Swish"), Of<T, Inside, bool>("Test>Inside"),
    Of<T, Wave>("Test>Wave"), Of<T, Scale>("Test>Scale"), Of<T, Raise>("Test>Raise")};
constinit const tenon_kernel_registration kOfInts =
    sdk::Registration<Each<int32_t, Weigh>>("Test>Weigh", {.device_type = "CPU"}),
    kOfTexts = sdk::Registration<Labelled>("Test>Labelled", {.device_type = "CPU"});
#define ALL_OF(T) \
  &kOfType<T>[0], &kOfType<T>[1], &kOfType<T>[2], &kOfType<T>[3], &kOfType<T>[4], &kOfType<T>[5]
const tenon_kernel_registration* const kRegistrations[] = {ALL_OF(sdk::Bfloat16), ALL_OF(sdk::Half), ALL_OF(float),
                                                           ALL_OF(double), &kOfInts, &kOfTexts};
const tenon_kernel_package kKernels = {TENON_HEAD(tenon_kernel_package), kRegistrations,
                                       TENON_PLUGIN_COUNT(kRegistrations)};
const tenon_capability kCapabilities[] = {TENON_PROVIDES(OPS, &kOps), TENON_PROVIDES(KERNELS, &kKernels)};

}  // namespace

TENON_PLUGIN("tenon.test.formula", "0.1.0", "Ops that say what they compute.", kCapabilities)
