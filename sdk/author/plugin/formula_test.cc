// SPDX-License-Identifier: Apache-2.0
#include "tenon/sdk/op/formula.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/testing/host.h"

namespace tenon::sdk::formula_test {
namespace {

// A node of an op with the inputs x, list (three of them) and y, and some attributes.
class FormulaText : public ::testing::Test {
 protected:
  FormulaText() {
    tenon_plugin_host = testing::Host();
    services_.struct_size = sizeof services_;
    services_.properties = [](const tenon_node* node, tenon_node_properties* out) {
      out->formula = ToSpan(*reinterpret_cast<const std::string*>(node));
    };
    services_.input_range = [](const tenon_node*, tenon_span name, int32_t* begin, int32_t* count) -> tenon_status* {
      static const std::map<std::string_view, std::pair<int32_t, int32_t>> kInputs = {
          {"x", {0, 1}}, {"list", {1, 3}}, {"y", {4, 1}}};
      const auto found = kInputs.find(ToText(name));
      if (found == kInputs.end()) return Failure(TENON_NOT_FOUND, "no input ", ToText(name));
      *begin = found->second.first;
      *count = found->second.second;
      return nullptr;
    };
    services_.attr = [](const tenon_node*, tenon_span name, tenon_attr_value* out) -> tenon_status* {
      static const float alpha = 0.25f;
      static const int64_t many = 3;
      static const uint8_t yes = 1;
      if (ToText(name) == "alpha") *out = {TENON_ATTR_FLOAT, 0, 1, &alpha};
      else if (ToText(name) == "many") *out = {TENON_ATTR_INT, 0, 1, &many};
      else if (ToText(name) == "yes") *out = {TENON_ATTR_BOOL, 0, 1, &yes};
      else return Failure(TENON_NOT_FOUND, "no attribute ", ToText(name));
      return nullptr;
    };
  }
  // As text: "mul(i0, s0); ...".
  std::string Steps(std::string words) const {
    std::string text;
    for (const FormulaStep& step : FormulaOf(services_, reinterpret_cast<const tenon_node*>(&words))) {
      text += std::string(step.function) + "(";
      for (const FormulaOperand& operand : step.operands) {
        if (&operand != step.operands.data()) text += ", ";
        std::ostringstream number;
        number << operand.number;
        text += operand.kind == FormulaOperand::Kind::kInput  ? Concat("i", operand.index)
                : operand.kind == FormulaOperand::Kind::kStep ? Concat("s", operand.index)
                                                              : number.str();
      }
      text += "); ";
    }
    return text;
  }
  tenon_node_services services_{};
};

TEST_F(FormulaText, IsStepsInTheirOrder) {
  EXPECT_EQ(Steps("$x neg/1"), "neg(i0); ");
  EXPECT_EQ(Steps("$x $x sigmoid/1 mul/2"), "sigmoid(i0); mul(i0, s0); ");
  EXPECT_EQ(Steps("$x tanh/1 $y exp/1 sub/2"), "tanh(i0); exp(i4); sub(s0, s1); ");
}

TEST_F(FormulaText, HasListsAttributesAndNumbers) {
  EXPECT_EQ(Steps("$list $y add_n/2"), "add_n(i1, i2, i3, i4); ");
  EXPECT_EQ(Steps("$x @alpha leaky_relu/2"), "leaky_relu(i0, 0.25); ");
  EXPECT_EQ(Steps("$x @yes cast/2"), "cast(i0, 1); ");
  EXPECT_EQ(Steps("$x -2.5 mul/2"), "mul(i0, -2.5); ");
}

TEST_F(FormulaText, OfNumbersAloneIsANumber) {
  EXPECT_EQ(Steps("$x 1 @alpha sub/2 mul/2"), "mul(i0, 0.75); ");
  EXPECT_EQ(Steps("$x @many neg/1 4 div/2 add/2"), "add(i0, -0.75); ");
  EXPECT_EQ(Steps("1 2 add/2"), "");
  EXPECT_EQ(Steps("$x 2 exp/1 mul/2"), "exp(2); mul(i0, s0); ");
}

// A newer host's, or nonsense.
TEST_F(FormulaText, InOtherWordsIsNone) {
  for (const char* words : {"", " ", "$x", "$x $y neg/1", "neg/1", "$x neg/2", "$x neg/", "$x neg/-1", "$x neg/1x",
                            "$z neg/1", "@none neg/1", "x neg/1", "1x neg/1", "$x  neg/1", "$ neg/1", "$x neg/1 $x"})
    EXPECT_EQ(Steps(words), "") << words;
  EXPECT_EQ(Steps("$x whatever/1"), "whatever(i0); ");
}

TEST_F(FormulaText, OfAnOlderHostIsNone) {
  services_.struct_size = offsetof(tenon_node_services, properties);
  EXPECT_EQ(Steps("$x neg/1"), "");
}

}  // namespace
}  // namespace tenon::sdk::formula_test
