// SPDX-License-Identifier: Apache-2.0
#include "core/graph/op_properties.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <regex>
#include <sstream>
#include <string>

#include "core/base/table_check.h"
#include "core/graph/graph.h"
#include "core/graph/op_def.h"
#include "core/graph/op_registry.h"
#include "tests/fakes/tiny_ops.h"

namespace tenon::graph::op_properties_test {
namespace {

Result<OpDef> Define(std::string_view properties, uint64_t traits = 0) {
  tenon_op_definition definition = fakes::DefineOp("Op", "x: T, values: N * T, axes: int32", "y: T",
                                                   "T: type; N: int; axis: list(int) = []; keep: bool = false");
  definition.properties = Span(properties);
  definition.traits = traits;
  return ParseOpDef(definition);
}

TEST(OpProperties, AreReadWithTheInputsThatTheyName) {
  const auto none = Define("");
  ASSERT_TRUE(none.ok()) << none.status().ToString();
  EXPECT_EQ(none->properties, OpProperties());
  const auto some = Define("elementwise(x, values), broadcasts,exact ,  rows(values)");
  ASSERT_TRUE(some.ok()) << some.status().ToString();
  EXPECT_EQ(some->properties.flags, TENON_PROPERTY_ELEMENTWISE | TENON_PROPERTY_BROADCASTS | TENON_PROPERTY_EXACT);
  EXPECT_EQ(some->properties.elements, (std::vector<size_t>{0, 1}));
  EXPECT_EQ(some->properties.rows, (std::vector<size_t>{1}));
  EXPECT_EQ(Define("elementwise")->properties.elements, (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(Define("moves(x)")->properties.flags, TENON_PROPERTY_MOVES | TENON_PROPERTY_EXACT);
  EXPECT_EQ(Define("normalizes(x, values), fits_half")->properties.elements, (std::vector<size_t>{0, 1}));
  EXPECT_EQ(Define("", TENON_OP_WRITES_STATE)->properties.flags, TENON_PROPERTY_UPDATES_STATE);
}

TEST(OpProperties, OfReductionsNameAxesAndDims) {
  const auto by_input = Define("reduces(x, axes, keep)");
  ASSERT_TRUE(by_input.ok()) << by_input.status().ToString();
  EXPECT_EQ(by_input->properties.axes_argument, 2);
  EXPECT_EQ(by_input->properties.keep_dims_attr, "keep");
  const auto by_attr = Define("reduces(x, axis)");
  ASSERT_TRUE(by_attr.ok()) << by_attr.status().ToString();
  EXPECT_EQ(by_attr->properties.axes_argument, -1);
  EXPECT_EQ(by_attr->properties.axes_attr, "axis");
}

TEST(OpProperties, HaveAFormulaAsTheWordsOfAStack) {
  const auto words = [](std::string_view text) {
    const auto op = Define(StrCat("elementwise, computes(", text, ")"));
    EXPECT_TRUE(op.ok()) << op.status().ToString();
    return op.ok() ? op->properties.formula : "";
  };
  EXPECT_EQ(words("neg(x)"), "$x neg/1");
  EXPECT_EQ(words("mul(x, sigmoid(x))"), "$x $x sigmoid/1 mul/2");
  EXPECT_EQ(words("add_n(values)"), "$values add_n/1");
  EXPECT_EQ(words(" select ( keep , add_n(x, values) , mul(-2.5e-3, x) ) "),
            "@keep $x $values add_n/2 -0.0025 $x mul/2 select/3");
  EXPECT_EQ(Define("exact, computes(neg(x))")->properties.formula, "$x neg/1");
  EXPECT_EQ(Define("computes(neg(x)), elementwise")->properties.flags, TENON_PROPERTY_ELEMENTWISE);
  EXPECT_NE(Define("elementwise, computes(neg(x))")->properties, Define("elementwise, computes(abs(x))")->properties);
}

// The page that strangers read has each of them.
TEST(OpProperties, HaveTheFunctionsOfTheHeader) {
  std::ifstream file(TENON_TEST_SOURCE_DIR "/plugin_api/include/tenon/formula.h");
  const std::string header(std::istreambuf_iterator<char>(file), {});
  const std::string known(Define("computes(magic(x))").status().message());
  std::istringstream names(known.substr(known.find("there are: ") + 11));
  int count = 0;
  for (std::string name; names >> name; ++count) {
    std::erase(name, ',');
    EXPECT_TRUE(std::regex_search(header, std::regex("[ (]" + name + "[ (\n]"))) << name;
  }
  EXPECT_GT(count, 90);
}

TEST(OpProperties, ThatAreNoneAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"magic", "'magic' is none that this host knows; there are: elementwise, moves"},
      {"moves", "'moves' takes 1 to 64 names; 0 are given"},
      {"view(x, axes)", "'view' takes 1 to 1 names; 2 are given"},
      {"exact(x)", "'exact' takes 0 to 0 names; 1 are given"},
      {"moves(T)", "'moves' names 'T', which is no input of the op"},
      {"rows(y)", "'rows' names 'y', which is no input of the op"},
      {"reduces(x, T)", "'reduces' has its axes of 'T'"},
      {"reduces(x, axes, axis)", "'reduces' keeps dims by 'axis', which is no attribute of type bool"},
      {"moves(x), view(x)", "an op is of one kind"},
      {"broadcasts", "'broadcasts' and 'curve' are said beside 'elementwise'"},
      {"moves(x), curve", "'broadcasts' and 'curve' are said beside 'elementwise'"},
      {"moves(x", "')' after the names of 'moves'"},
      {"exact draws", "',' between properties"},
      {"exact, (x)", "'' is none that this host knows"},
      {"computes", "'(' before the formula of 'computes'"},
      {"computes(x)", "'x' is no function of formulas; there are: neg, abs, "},
      {"computes(magic(x))", "'magic' is no function of formulas; there are: neg, abs, "},
      {"computes(neg(magic(x)))", "'magic' is no function of formulas"},
      {"computes(neg(x, x))", "'neg' is of 1 operands; 2 are given"},
      {"computes(neg())", "an operand of 'neg'"},
      {"computes(mul(x, nan))", "a formula has 'nan', which is neither an input nor an attribute"},
      {"computes(mul(x, 1e999))", "an operand of 'mul'"},
      {"computes(mul(x, axis))", "a formula has 'axis', which is neither an input nor an attribute of type float"},
      {"computes(neg(values))", "'values' is a list, of which 'neg' takes none"},
      {"computes(neg(x)", "')' after the formula of 'computes'"},
      {"computes(neg(x", "')' after the operands of 'neg'"},
      {"elementwise, computes(neg(x)), computes(neg(x))", "'computes' is said twice"},
      {"computes(less(x, x))", "what the op 'computes' is not of its output's type"},
      {"computes(neg(axes))", "what the op 'computes' is not of its output's type"},
      {"computes(add(x, axes))", "operand 1 of 'add' is of another type than it takes"},
      {"computes(select(x, x, x))", "operand 0 of 'select' is of another type than it takes"},
      {"computes(select(less(x, 0), x, axes))", "operand 2 of 'select' is of another type than it takes"},
      {"computes(cast(logical_and(x, keep), keep))", "operand 0 of 'logical_and' is of another type than it takes"},
      {"moves(x), computes(neg(x))", "'computes' is said beside no kind but 'elementwise'"},
  };
  for (const auto& [text, error] : cases) {
    const auto op = Define(text);
    ASSERT_FALSE(op.ok()) << text;
    EXPECT_NE(op.status().message().find(error), std::string::npos) << text << ": " << op.status().ToString();
    EXPECT_NE(op.status().message().find("definition of op 'Op'"), std::string::npos) << op.status().ToString();
  }
}

// Code that is made of the formula would not have them.
TEST(OpProperties, RefuseFormulasBesideEffects) {
  for (const uint64_t trait : {TENON_OP_STATEFUL, TENON_OP_WRITES_STATE, TENON_OP_IO})
    EXPECT_NE(Define("computes(neg(x))", trait).status().message().find("has state or effects besides"),
              std::string::npos);
  for (const char* state : {"draws", "reads_state", "updates_state"})
    EXPECT_FALSE(Define(StrCat("computes(neg(x)), ", state)).ok()) << state;
  EXPECT_TRUE(Define("computes(neg(x))", TENON_OP_COMMUTATIVE).ok());
}

TEST(OpProperties, RefuseFormulasWithoutBounds) {
  std::string deep = "x", wide = "x";
  for (int i = 0; i < 30; ++i) deep = "neg(" + deep + ")";
  for (int i = 0; i < 40; ++i) wide += ", x";
  EXPECT_NE(Define("computes(" + deep + ")").status().message().find("deeper than 16"), std::string::npos);
  EXPECT_NE(Define("computes(add_n(" + wide + "))").status().message().find("more than 32 words"), std::string::npos);
  tenon_op_definition two = fakes::DefineOp("Op", "x: T", "y: T, z: T", "T: type");
  two.properties = Span("computes(neg(x))");
  EXPECT_NE(ParseOpDef(two).status().message().find("for ops of one output"), std::string::npos);
}

// One that says nothing may be older; two that say different things are two ops.
TEST(OpProperties, ThatDifferMakeTwoOps) {
  std::string difference;
  EXPECT_EQ(Compare(*Define("moves(x)"), *Define("moves(x)"), &difference), Sameness::kEqual);
  EXPECT_EQ(Compare(*Define("moves(x)"), *Define(""), &difference), Sameness::kEqual);
  EXPECT_EQ(Compare(*Define("draws", TENON_OP_WRITES_STATE), *Define("", TENON_OP_WRITES_STATE), &difference),
            Sameness::kEqual);
  EXPECT_EQ(Compare(*Define("moves(x)"), *Define("view(x)"), &difference), Sameness::kDifferent);
  EXPECT_EQ(difference, "properties");
}

class OfNodes : public ::testing::Test {
 protected:
  // Of a node with so many values between x and the axes.
  tenon_node_properties Of(std::string_view properties, size_t values, uint32_t size = sizeof(tenon_node_properties)) {
    op_.emplace(Define(properties));
    EXPECT_TRUE(op_->ok()) << op_->status().ToString();
    Node node;
    node.op = &**op_;
    const auto count = static_cast<int32_t>(values);
    node.input_ranges = {{0, 1}, {1, count}, {1 + count, 1}};
    tenon_node_properties out{};
    out.struct_size = size;
    out.axes_input = 77;
    NodeServices()->properties(&node, &out);
    return out;
  }
  std::optional<Result<OpDef>> op_;  // whose texts the answer refers to
};

TEST_F(OfNodes, AreOfTheirInputs) {
  const tenon_node_properties said = Of("elementwise(values), rows(x)", 3);
  EXPECT_EQ(said.flags, TENON_PROPERTY_ELEMENTWISE);
  EXPECT_EQ(said.elements, 0b1110u);
  EXPECT_EQ(said.rows, 1u);
  EXPECT_EQ(said.axes_input, -1);
  EXPECT_EQ(Of("reduces(x, axes, keep)", 3).axes_input, 4);
  EXPECT_EQ(View(Of("reduces(x, axis, keep)", 3).axes_attr), "axis");
  EXPECT_EQ(Of("elementwise(values)", 0).elements, 0u);
  EXPECT_EQ(View(Of("elementwise, computes(add(x, 2))", 1).formula), "$x 2 add/2");
}

TEST_F(OfNodes, OfManyInputsHaveTheLastBitForTheRest) {
  EXPECT_EQ(Of("elementwise(values)", 62).elements, (~uint64_t{0} >> 1) & ~uint64_t{1});
  EXPECT_EQ(Of("elementwise(values)", 63).elements, ~uint64_t{0} & ~uint64_t{1});
  EXPECT_EQ(Of("elementwise(values)", 500).elements, ~uint64_t{0} & ~uint64_t{1});
  EXPECT_EQ(Of("moves(axes)", 500).elements, uint64_t{1} << 63);
}

// A plugin that is older asks for less.
TEST_F(OfNodes, FillNoMoreThanThereIsRoomFor) {
  const uint32_t size = TENON_SIZE_UP_TO(tenon_node_properties, elements);
  const tenon_node_properties said = Of("reduces(x, axes)", 1, size);
  EXPECT_EQ(said.struct_size, size);
  EXPECT_EQ(said.flags, TENON_PROPERTY_REDUCES);
  EXPECT_EQ(said.axes_input, 77);
}

}  // namespace
}  // namespace tenon::graph::op_properties_test
