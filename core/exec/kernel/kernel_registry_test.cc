// SPDX-License-Identifier: Apache-2.0
#include "core/exec/kernel/kernel_registry.h"
// Covers A10, G4, N5.
#include <cstddef>

#include "tests/fakes/tiny_ops.h"

namespace tenon::exec::kernel_registry_test {
namespace {

using fakes::GraphMaker;
using graph::AttrValue;
using graph::Edge;

const uint32_t kFloats[] = {TENON_DT_FLOAT, TENON_DT_DOUBLE};
const tenon_type_constraint kFloatsOnly = {TENON_SPAN("T"), kFloats, 2};

tenon_kernel_registration Kernel(std::string_view op, std::string_view device, int32_t priority,
                                 bool floats_only = false) {
  tenon_kernel_registration kernel{};
  kernel.struct_size = sizeof(kernel);
  kernel.op = Span(op);
  kernel.device_type = Span(device);
  kernel.priority = priority;
  if (floats_only) {
    kernel.constraints = &kFloatsOnly;
    kernel.constraint_count = 1;
  }
  kernel.run = [](tenon_kernel*, const tenon_prepared*, tenon_frame*) -> tenon_status* { return nullptr; };
  return kernel;
}

Status Register(KernelRegistry* registry, std::vector<const tenon_kernel_registration*> kernels,
                std::string_view plugin) {
  return registry->Register({sizeof(tenon_kernel_package), 0, kernels.data(), kernels.size()},
                            fakes::InstanceNamed(plugin));
}

struct Registry : GraphMaker {
  KernelRegistry kernels;
  const graph::Node& Plus(DType dtype, graph::AttrMap attrs = {}) {
    const Edge x = Feed(dtype);
    return graph.node(Add("Plus", {x, x}, std::move(attrs), "plus" + std::to_string(graph.size())).node);
  }
  std::string Found(const graph::Node& node, std::string_view device) {
    std::string names;
    for (const KernelEntry& entry : kernels.Find(node, device))
      names += StrCat(names.empty() ? "" : " ", entry.plugin());
    return names;
  }
};

TEST(KernelRegistry, GivesWhatFitsTheHighestPriorityFirst) {
  Registry r;
  const auto low = Kernel("Plus", "CPU", -1), high = Kernel("Plus", "CPU", 7), any = Kernel("Plus", "", 3),
             gpu = Kernel("Plus", "GPU", 99);
  ASSERT_TRUE(Register(&r.kernels, {&low}, "low").ok());
  ASSERT_TRUE(Register(&r.kernels, {&high}, "high").ok());
  ASSERT_TRUE(Register(&r.kernels, {&any}, "any").ok());
  ASSERT_TRUE(Register(&r.kernels, {&gpu}, "gpu").ok());
  EXPECT_EQ(r.Found(r.Plus(TENON_DT_FLOAT), "CPU"), "high any low");
  EXPECT_EQ(r.Found(r.Plus(TENON_DT_FLOAT), "GPU"), "gpu any");
  EXPECT_EQ(r.Found(r.Plus(TENON_DT_FLOAT), "TPU"), "any");
  r.kernels.Unregister("high");
  EXPECT_EQ(r.Found(r.Plus(TENON_DT_FLOAT), "CPU"), "any low");
}

TEST(KernelRegistry, PutsTheFirstRegisteredFirstAmongEquals) {
  Registry r;
  const auto kernel = Kernel("Plus", "CPU", 0);
  ASSERT_TRUE(Register(&r.kernels, {&kernel}, "one").ok());
  ASSERT_TRUE(Register(&r.kernels, {&kernel}, "two").ok());
  EXPECT_EQ(r.Found(r.Plus(TENON_DT_FLOAT), "CPU"), "one two");
}

TEST(KernelRegistry, LooksAtTypes) {
  Registry r;
  const auto floats = Kernel("Plus", "CPU", 0, true);
  ASSERT_TRUE(Register(&r.kernels, {&floats}, "floats").ok());
  EXPECT_EQ(r.Found(r.Plus(TENON_DT_DOUBLE), "CPU"), "floats");
  EXPECT_EQ(r.Found(r.Plus(TENON_DT_INT32), "CPU"), "");
  EXPECT_EQ(DescribeConstraints(floats), "T: float, double");
}

TEST(KernelRegistry, MatchesLabelsExactly) {
  Registry r;
  auto fast = Kernel("Plus", "CPU", 9), plain = Kernel("Plus", "CPU", 0);
  fast.label = TENON_SPAN("fast");
  ASSERT_TRUE(Register(&r.kernels, {&fast}, "fast").ok());
  ASSERT_TRUE(Register(&r.kernels, {&plain}, "plain").ok());
  EXPECT_EQ(r.Found(r.Plus(TENON_DT_FLOAT), "CPU"), "plain");
  EXPECT_EQ(r.Found(r.Plus(TENON_DT_FLOAT, {{"_kernel", AttrValue::String("fast")}}), "CPU"), "fast");
  EXPECT_EQ(r.Found(r.Plus(TENON_DT_FLOAT, {{"_kernel", AttrValue::String("faster")}}), "CPU"), "");
}

TEST(KernelRegistry, SaysWhyNoneFits) {
  Registry r;
  const auto floats = Kernel("Plus", "CPU", 0, true), any = Kernel("Plus", "", 0, true);
  const graph::Node& node = r.Plus(TENON_DT_INT32);
  EXPECT_EQ(r.kernels.NoKernel(node, "CPU").ToString(),
            "NOT_FOUND: node 'plus1' (Plus): no kernel on CPU for T=int32; no loaded plugin has a kernel for this op");
  r.kernels.NoteElsewhere("Plus", "tenon.far");
  ASSERT_TRUE(Register(&r.kernels, {&floats, &any}, "near").ok());
  EXPECT_EQ(r.kernels.NoKernel(node, "CPU").ToString(),
            "NOT_FOUND: node 'plus1' (Plus): no kernel on CPU for T=int32; kernels that are loaded: near on CPU (T: "
            "float, double); near "
            "on any device (T: float, double); package 'tenon.far' has one: load that plugin");
}

TEST(KernelRegistry, TakesAllKernelsOfAPackageOrNone) {
  KernelRegistry registry;
  const auto good = Kernel("Plus", "CPU", 0);
  auto idle = Kernel("Minus", "CPU", 0), future = good;
  idle.run = nullptr;
  future.must_understand = 2;
  EXPECT_EQ(Register(&registry, {&good, &idle}, "p").ToString(),
            "INVALID_ARGUMENT: a kernel of op 'Minus' has no run function");
  EXPECT_EQ(Register(&registry, {&good, nullptr}, "p").ToString(),
            "INVALID_ARGUMENT: a kernel package holds a NULL registration");
  EXPECT_EQ(Register(&registry, {&good, &future}, "p").ToString(),
            "UNIMPLEMENTED: a kernel of op 'Plus' needs a feature of a newer host (must_understand 2)");
  EXPECT_TRUE(registry.All().empty());
  idle.traits = TENON_KERNEL_VIEW;
  EXPECT_TRUE(Register(&registry, {&good, &idle}, "p").ok()) << "a view is never run";
  EXPECT_EQ(registry.All().size(), 2u);
}

TEST(KernelRegistry, ReadsRegistrationsOfOlderHosts) {
  Registry r;
  auto old = Kernel("Plus", "CPU", 0);
  old.struct_size = offsetof(tenon_kernel_registration, run_async);
  ASSERT_TRUE(Register(&r.kernels, {&old}, "old").ok());
  const auto found = r.kernels.Find(r.Plus(TENON_DT_FLOAT), "CPU");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].registration, &old);
  EXPECT_EQ(found[0].registration->run, old.run);
  EXPECT_EQ(found[0].registration->run_async, nullptr);
}

TEST(KernelRegistry, OpensThePackagesOfAnOpWhenItIsAskedFor) {
  Registry r;
  static const auto late = Kernel("Plus", "CPU", 0);
  r.kernels.SetOpener([&](std::string_view op) {
    if (op != "Plus") return;
    EXPECT_TRUE(Register(&r.kernels, {&late}, "late").ok());
  });
  EXPECT_EQ(r.Found(r.Plus(TENON_DT_FLOAT), "CPU"), "late");
}

TEST(KernelRegistry, GivesVariantsToKernelsThatMakeThemAlone) {
  Registry r;
  const auto zeros = [&](DType dtype) -> const graph::Node& {
    return r.graph.node(r.Add("Zeros", {r.Feed(dtype)}).node);
  };
  tenon_kernel_registration plain = Kernel("Zeros", "CPU", 1), makes = Kernel("Zeros", "CPU", 0);
  makes.dynamic_outputs = 1;
  ASSERT_TRUE(Register(&r.kernels, {&plain}, "plain").ok());
  ASSERT_TRUE(Register(&r.kernels, {&makes}, "makes").ok());
  EXPECT_EQ(r.Found(zeros(TENON_DT_VARIANT), "CPU"), "makes");
  EXPECT_EQ(r.Found(zeros(TENON_DT_FLOAT), "CPU"), "plain makes");
}

}  // namespace
}  // namespace tenon::exec::kernel_registry_test
