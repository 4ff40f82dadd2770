// SPDX-License-Identifier: Apache-2.0
#include "core/graph/op_registry.h"

#include <cstddef>

#include "tests/fakes/tiny_ops.h"

namespace tenon::graph::op_registry_test {
namespace {

using fakes::DefineOp;
using fakes::RegisterOps;

TEST(OpRegistry, FindsOpsByNameAndRole) {
  OpRegistry registry;
  const tenon_op_definition plus = DefineOp("Plus", "a: float", "b: float", "", 0, "add, sum");
  ASSERT_TRUE(RegisterOps(&registry, {&plus}).ok());
  ASSERT_TRUE(registry.Find("Plus").ok());
  EXPECT_EQ((*registry.Find("Plus"))->package, "tiny");
  EXPECT_EQ(*registry.FindRole("add"), *registry.Find("Plus"));
  EXPECT_EQ(*registry.FindRole("sum"), *registry.Find("Plus"));
  EXPECT_EQ(registry.FindRole("ad").status().ToString(),
            "NOT_FOUND: no loaded plugin has an op with the role 'ad', which the engine needs here; load the package "
            "that offers it");
}

// What was found once is looked for again after each change: packages come and go.
TEST(OpRegistry, FindsTheRoleOfWhatIsThere) {
  OpRegistry registry;
  const tenon_op_definition sum = DefineOp("Sum", "a: float", "b: float", "", 0, "add");
  const tenon_op_definition add = DefineOp("Add", "a: float", "b: float", "", 0, "add");
  EXPECT_FALSE(registry.FindRole("add").ok());
  ASSERT_TRUE(RegisterOps(&registry, {&sum}, "one").ok());
  EXPECT_EQ((*registry.FindRole("add"))->name, "Sum");
  ASSERT_TRUE(RegisterOps(&registry, {&add}, "two").ok());
  EXPECT_EQ((*registry.FindRole("add"))->name, "Add") << "the first by name, whichever came first";
  registry.Unregister("two");
  EXPECT_EQ((*registry.FindRole("add"))->name, "Sum");
  registry.Unregister("one");
  EXPECT_FALSE(registry.FindRole("add").ok());
}

TEST(OpRegistry, NamesANearMiss) {
  OpRegistry registry;
  const tenon_op_definition a = DefineOp("MatrixProduct", "", ""), b = DefineOp("Sum", "", "");
  ASSERT_TRUE(RegisterOps(&registry, {&a, &b}).ok());
  EXPECT_EQ(registry.Find("MatrixProdukt").status().ToString(),
            "NOT_FOUND: no loaded plugin has the op 'MatrixProdukt'; did you mean 'MatrixProduct'? (2 ops are loaded)");
  EXPECT_EQ(registry.Find("Elephant").status().ToString(),
            "NOT_FOUND: no loaded plugin has the op 'Elephant' (2 ops are loaded)");
  EXPECT_EQ(registry.FindOrNull("Elephant"), nullptr);
}

TEST(OpRegistry, KnowsWhatPackagesThatAreNotLoadedHave) {
  OpRegistry registry;
  registry.NoteElsewhere("Far", "tenon.ops.far");
  EXPECT_EQ(registry.Find("Far").status().ToString(),
            "NOT_FOUND: op 'Far' is not loaded; package 'tenon.ops.far' has it: load that plugin");
  registry.NoteElsewhere("Far", "tenon.ops.far", "this machine has no AMX");
  EXPECT_EQ(registry.Find("Far").status().ToString(),
            "NOT_FOUND: op 'Far' is not loaded; package 'tenon.ops.far' has it: this machine has no AMX");
}

TEST(OpRegistry, TakesAllOpsOfAPackageOrNone) {
  OpRegistry registry;
  const tenon_op_definition good = DefineOp("Good", "", ""), bad = DefineOp("Bad", "x: T", "");
  EXPECT_EQ(
      RegisterOps(&registry, {&good, &bad}).ToString(),
      "INVALID_ARGUMENT: definition of op 'Bad': argument 'x' names 'T', which is neither a type nor a type attribute");
  EXPECT_TRUE(registry.All().empty());
  EXPECT_EQ(RegisterOps(&registry, {&good, nullptr}).ToString(),
            "INVALID_ARGUMENT: an op package holds a NULL definition");
  EXPECT_TRUE(registry.All().empty());
}

TEST(OpRegistry, LeavesOutADifferentDefinitionAloneNamingBothPlugins) {
  OpRegistry registry;
  const tenon_op_definition first = DefineOp("Op", "x: float", ""), same = first,
                            other = DefineOp("Op", "x: double", "");
  const tenon_op_definition more = DefineOp("More", "", "");
  ASSERT_TRUE(RegisterOps(&registry, {&first}, "one").ok());
  EXPECT_TRUE(RegisterOps(&registry, {&same}, "two").ok());
  std::map<std::string, std::string> refused;
  const tenon_op_definition* const definitions[] = {&other, &more};
  ASSERT_TRUE(
      registry.Register({sizeof(tenon_op_package), 0, definitions, 2, 0}, fakes::InstanceNamed("three"), &refused)
          .ok());
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused["Op"],
            "op 'Op' of plugin 'three' differs in its inputs from the one of plugin 'one'; load only one of them, "
            "or make the definitions equal");
  EXPECT_EQ((*registry.Find("Op"))->package, "one");
  EXPECT_EQ((*registry.Find("More"))->package, "three");
}

TEST(OpRegistry, RefusesWhatItDoesNotKnow) {
  OpRegistry registry;
  tenon_op_definition op = DefineOp("Op", "x: float", "y: float");
  op.traits = uint64_t{1} << 55;
  EXPECT_EQ(RegisterOps(&registry, {&op}).ToString(),
            "UNIMPLEMENTED: op 'Op' has the traits 36028797018963968, which this host does not know");
  op.traits = 0;
  op.version = -1;
  EXPECT_EQ(RegisterOps(&registry, {&op}).ToString(),
            "INVALID_ARGUMENT: op 'Op' has the version -1; versions are from 1 on");
  op.version = 0;
  op.struct_size = 24;
  EXPECT_EQ(RegisterOps(&registry, {&op})
                .ToString()
                .rfind("INVALID_ARGUMENT: op 'Op' has the struct_size 24; it is at least ", 0),
            0u);
  op.struct_size = sizeof op;
  EXPECT_TRUE(RegisterOps(&registry, {&op}).ok());
}

TEST(OpRegistry, LetsTheLaterOfTwoVersionsWinUnlessItHasLost) {
  OpRegistry registry;
  tenon_op_definition first = DefineOp("Op", "", ""), second = DefineOp("Op", "", ""),
                      third = DefineOp("Op", "", "", "n: int = 1");
  first.version = 1;
  second.version = third.version = 2;
  ASSERT_TRUE(RegisterOps(&registry, {&second}, "two").ok());
  ASSERT_TRUE(RegisterOps(&registry, {&first}, "one").ok());
  EXPECT_EQ((*registry.Find("Op"))->package, "two");
  ASSERT_TRUE(RegisterOps(&registry, {&third}, "three").ok());
  EXPECT_EQ((*registry.Find("Op"))->package, "three");
  tenon_op_definition lost = DefineOp("Op", "", "");
  lost.version = 3;
  EXPECT_NE(RegisterOps(&registry, {&lost}, "four").message().find("attributes, of which the later version has fewer"),
            std::string::npos);
  EXPECT_EQ((*registry.Find("Op"))->package, "three");
}

tenon_status* NoGradient(const tenon_gradient_args*) { return nullptr; }

TEST(OpRegistry, TakesOneGradientForAnOpOfOthers) {
  OpRegistry registry;
  tenon_gradient_registration one = {TENON_HEAD(tenon_gradient_registration), TENON_SPAN("Op"), &NoGradient}, two = one;
  const auto add = [&](std::vector<const tenon_gradient_registration*> list, const char* plugin,
                       uint32_t must_understand = 0) {
    const tenon_gradient_package package = {sizeof(tenon_gradient_package), must_understand, list.data(), list.size()};
    return registry.RegisterGradients(package, fakes::InstanceNamed(plugin)).ToString();
  };
  EXPECT_EQ(add({&one, &two}, "p"), "INVALID_ARGUMENT: a gradient of op 'Op' stands twice in one package");
  EXPECT_EQ(add({&one, nullptr}, "p"), "INVALID_ARGUMENT: a gradient's registration is NULL");
  two.gradient = nullptr;
  EXPECT_EQ(add({&two}, "p"), "INVALID_ARGUMENT: the gradient of op 'Op' has no function");
  two.struct_size = 16;
  EXPECT_EQ(add({&two}, "p").find("INVALID_ARGUMENT: a gradient's registration has the struct_size 16"), 0u)
      << add({&two}, "p");
  EXPECT_EQ(add({&one}, "p", 4).find("UNIMPLEMENTED"), 0u) << add({&one}, "p", 4);
  EXPECT_EQ(registry.FindGradient("Op").gradient, nullptr) << "all or nothing";
  EXPECT_EQ(add({&one}, "p"), "OK");
  EXPECT_EQ(registry.FindGradient("Op").gradient, &NoGradient);
  EXPECT_EQ(add({&one}, "q"), "ALREADY_EXISTS: plugin 'p' brings a gradient of op 'Op' already; load only one of them");
  registry.Unregister("p");
  EXPECT_EQ(registry.FindGradient("Op").gradient, nullptr);
  EXPECT_EQ(add({&one}, "q"), "OK");
}

TEST(OpRegistry, LetsTheLargerOfTwoCompatibleDefinitionsWin) {
  OpRegistry registry;
  const tenon_op_definition small = DefineOp("Op", "", ""), large = DefineOp("Op", "", "", "n: int = 1");
  ASSERT_TRUE(RegisterOps(&registry, {&small}, "small").ok());
  const OpDef* before = *registry.Find("Op");
  ASSERT_TRUE(RegisterOps(&registry, {&large}, "large").ok());
  EXPECT_EQ((*registry.Find("Op"))->package, "large");
  EXPECT_TRUE(before->attrs.empty()) << "graphs that hold the first one go on";
  registry.Unregister("large");
  EXPECT_EQ((*registry.Find("Op"))->package, "small");
  registry.Unregister("small");
  EXPECT_FALSE(registry.Find("Op").ok());
  EXPECT_EQ(before->name, "Op") << "definitions are never freed";
}

TEST(OpRegistry, ReadsDefinitionsOfOlderHostsAndRefusesThoseOfNewerOnes) {
  OpRegistry registry;
  tenon_op_definition old = DefineOp("Old", "", "");
  old.deprecation = TENON_SPAN("beyond its size");
  old.struct_size = offsetof(tenon_op_definition, deprecated_at);
  ASSERT_TRUE(RegisterOps(&registry, {&old}).ok());
  EXPECT_EQ((*registry.Find("Old"))->deprecation, "");
  tenon_op_definition future = DefineOp("New", "", "");
  future.must_understand = 4;
  EXPECT_EQ(RegisterOps(&registry, {&future}).ToString(),
            "UNIMPLEMENTED: op 'New' needs a feature of a newer host (must_understand 4)");
}

TEST(OpRegistry, OpensPackagesWhenAnOpIsFirstAskedFor) {
  OpRegistry registry;
  static const tenon_op_definition late = DefineOp("Late", "", "", "", 0, "sum");
  std::vector<std::string> asked;
  registry.SetOpener([&](std::string_view op) { asked.emplace_back(op); });
  EXPECT_EQ(registry.FindOrNull("Nowhere"), nullptr);
  EXPECT_EQ(asked, (std::vector<std::string>{"Nowhere"}));
  asked.clear();
  EXPECT_FALSE(registry.Find("Nowhere").ok());
  EXPECT_EQ(asked, (std::vector<std::string>{"Nowhere", ""})) << "all, so that near misses are known";
  registry.SetOpener([&](std::string_view op) {
    if (op != "Late") return;
    EXPECT_TRUE(RegisterOps(&registry, {&late}).ok());
  });
  EXPECT_TRUE(registry.Find("Late").ok());
}

}  // namespace
}  // namespace tenon::graph::op_registry_test
