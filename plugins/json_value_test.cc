// SPDX-License-Identifier: Apache-2.0
#include "plugins/json_value.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace tenon::plugins::json_value_test {
namespace {

using Kind = JsonValue::Kind;

TEST(JsonValue, HasWhatTheTextSays) {
  const auto value = JsonValue::Parse(
      R"({"a": [1, -2, 9223372036854775807, 9223372036854775808, 1.5, true, null, "x\u00e9", []], "b": {"c": {}}})");
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(value->kind, Kind::kObject);
  const JsonValue* list = value->Find("a");
  ASSERT_NE(list, nullptr);
  ASSERT_EQ(list->kind, Kind::kList);
  ASSERT_EQ(list->items.size(), 9u);
  EXPECT_EQ(list->items[0].integer, 1);
  EXPECT_EQ(list->items[1].integer, -2);
  EXPECT_EQ(list->items[2].kind, Kind::kInteger);
  EXPECT_EQ(list->items[2].integer, std::numeric_limits<int64_t>::max());
  for (size_t other : {3, 4, 5, 6}) EXPECT_EQ(list->items[other].kind, Kind::kOther) << other;
  EXPECT_EQ(list->items[7].text, "x\xc3\xa9");
  EXPECT_EQ(list->items[8].kind, Kind::kList);
  ASSERT_NE(value->Find("b"), nullptr);
  EXPECT_NE(value->Find("b")->Find("c"), nullptr);
  EXPECT_EQ(value->Find("c"), nullptr);
  EXPECT_EQ(list->Find("a"), nullptr);
}

TEST(JsonValue, TakesTheLastOfOneName) {
  const auto value = JsonValue::Parse(R"({"a": 1, "b": 2, "a": 3})");
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(value->Find("a")->integer, 3);
}

TEST(JsonValue, IsOneValueAndNothingElse) {
  for (const char* text :
       {"", " ", "{", "[1,]", "{\"a\"}", "{\"a\":}", "1 2", "[] []", "nul", "\"\xff\"", "{1:2}", "\"", "[1}"})
    EXPECT_EQ(JsonValue::Parse(text).status().message(), "it is not JSON") << text;
  for (const char* text : {"1", "null", "\"a\"", "[]", " {} "}) EXPECT_TRUE(JsonValue::Parse(text).ok()) << text;
}

TEST(JsonValue, IsOfSixteenLevelsAtMost) {
  const auto nested = [](size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); };
  EXPECT_TRUE(JsonValue::Parse(nested(JsonValue::kDeepest)).ok());
  for (size_t levels : {JsonValue::kDeepest + 1, size_t{2000000}})
    EXPECT_EQ(JsonValue::Parse(nested(levels)).status().message(), "it is nested more than 16 levels deep");
  EXPECT_EQ(JsonValue::Parse(std::string(2000000, '[')).status().message(), "it is nested more than 16 levels deep");
}

}  // namespace
}  // namespace tenon::plugins::json_value_test
