// SPDX-License-Identifier: Apache-2.0
#include "tenon/model/coverage.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tenon/model/text_format.h"
#include "tests/engine/engine.h"

namespace tenon::model::coverage_test {
namespace {

std::vector<OpUse> Coverage(const std::string& text, const std::vector<std::string>& targets) {
  const Result<WireMessage> wire = TextToWire(text, "GraphDef");
  EXPECT_TRUE(wire.ok()) << wire.status();
  const Result<GraphIndex> index = GraphIndex::Build(wire->bytes);
  EXPECT_TRUE(index.ok()) << index.status();
  const auto nodes = index->Reach({}, targets);
  EXPECT_TRUE(nodes.ok()) << nodes.status();
  return FindCoverage(engine::TheRuntime(), *index, *nodes);
}

const OpUse* Find(const std::vector<OpUse>& uses, std::string_view op) {
  const auto found = std::ranges::find_if(uses, [&](const OpUse& use) { return use.op == op; });
  return found == uses.end() ? nullptr : &*found;
}

constexpr const char* kGraph = R"(
  node { name: "x" op: "Placeholder" }
  node { name: "y" op: "f" input: "x" }
  node { name: "z" op: "f" input: "y" }
  node { name: "unreached" op: "Frobnicate" input: "z" }
  library { function { signature { name: "f" input_arg { name: "a" type: DT_FLOAT } }
    node_def { name: "sum" op: "Add" input: ["a", "a"] }
    node_def { name: "odd" op: "Defrobnicate" input: "sum:z:0" }
    node_def { name: "unread" op: "Frobnicate" input: "a" }
    node_def { name: "effect" op: "Assert" input: "a" }
    ret { key: "r" value: "odd:y:0" } } })";

TEST(Coverage, CountsWhatIsReachedAlsoInFunctions) {
  const std::vector<OpUse> uses = Coverage(kGraph, {"z"});
  ASSERT_NE(Find(uses, "Add"), nullptr);
  EXPECT_EQ(Find(uses, "Add")->nodes, 1) << "a function counts once, however often it is called";
  EXPECT_EQ(Find(uses, "Add")->package, "tenon.ops.math");
  EXPECT_NE(Find(uses, "Assert"), nullptr) << "what has an effect runs";
  EXPECT_EQ(Find(uses, "f"), nullptr) << "the graph's own functions are no ops";
  EXPECT_EQ(Find(uses, "Frobnicate"), nullptr);
}

TEST(Coverage, SaysWhereAMissingOpStands) {
  const std::vector<OpUse> uses = Coverage(kGraph, {"unreached"});
  const OpUse* in_function = Find(uses, "Defrobnicate");
  ASSERT_NE(in_function, nullptr);
  EXPECT_EQ(in_function->package, "");
  EXPECT_NE(in_function->why.find("no loaded plugin has the op 'Defrobnicate'"), std::string::npos) << in_function->why;
  ASSERT_EQ(in_function->places.size(), 1u);
  EXPECT_EQ(in_function->places[0].node, "odd");
  EXPECT_EQ(in_function->places[0].function, "f");
  ASSERT_NE(Find(uses, "Frobnicate"), nullptr);
  EXPECT_EQ(Find(uses, "Frobnicate")->places[0].function, "");
}

}  // namespace
}  // namespace tenon::model::coverage_test
