// SPDX-License-Identifier: Apache-2.0
#include "core/graph/constraint.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>

namespace tenon::graph::constraint_test {
namespace {

// x: [4, 5, 6]; v: the values 0, 2; n: 3; all else is not known.
ConstraintFacts Facts() {
  ConstraintFacts facts;
  facts.attr = [](const std::string& name) -> std::optional<int64_t> {
    if (name == "n") return 3;
    if (name == "most") return std::numeric_limits<int64_t>::max();
    return std::nullopt;
  };
  facts.rank = [](const std::string& argument) -> std::optional<int64_t> {
    return argument == "x" ? std::optional<int64_t>(3) : std::nullopt;
  };
  facts.dim = [](const std::string& argument, int64_t index) -> std::optional<int64_t> {
    if (argument != "x" || index < -3 || index > 2) return std::nullopt;
    return 4 + (index < 0 ? index + 3 : index);
  };
  facts.numel = [](const std::string& argument) -> std::optional<int64_t> {
    return argument == "x" ? std::optional<int64_t>(120) : std::nullopt;
  };
  facts.values = [](const std::string& argument) -> std::optional<std::vector<int64_t>> {
    if (argument == "v") return std::vector<int64_t>{0, 2};
    if (argument == "none") return std::vector<int64_t>{};
    return std::nullopt;
  };
  return facts;
}

std::string CheckText(std::string_view text) {
  auto parsed = ParseConstraints(text);
  if (!parsed.ok()) return parsed.status().ToString();
  for (const Constraint& constraint : *parsed)
    if (Status status = Check(constraint, Facts()); !status.ok()) return status.ToString();
  return "OK";
}

TEST(Constraint, HoldsForEveryComparison) {
  for (const char* text : {"rank(x) == 3", "rank(x) != 2", "rank(x) < 4", "rank(x) <= 3", "rank(x) > 2", "rank(x) >= 3",
                           "dim(x, 0) == 4", "dim(x, -1) == 6", "numel(x) == 120", "n == 3"})
    EXPECT_EQ(CheckText(text), "OK") << text;
}

TEST(Constraint, SaysWhatMustHoldAndWhatWasFound) {
  EXPECT_EQ(CheckText("  rank(x) >= 4 "), "INVALID_ARGUMENT: must hold: rank(x) >= 4; found 3 >= 4");
  EXPECT_EQ(CheckText("dim(x, 0) == dim(x, -1)"), "INVALID_ARGUMENT: must hold: dim(x, 0) == dim(x, -1); found 4 == 6");
  EXPECT_EQ(CheckText("rank(x) == 3; n != 3"), "INVALID_ARGUMENT: must hold: n != 3; found 3 != 3");
  EXPECT_EQ(CheckText("rank(x) < 3"), "INVALID_ARGUMENT: must hold: rank(x) < 3; found 3 < 3");
  EXPECT_EQ(CheckText("rank(x) > 3"), "INVALID_ARGUMENT: must hold: rank(x) > 3; found 3 > 3");
  EXPECT_EQ(CheckText("rank(x) <= 2"), "INVALID_ARGUMENT: must hold: rank(x) <= 2; found 3 <= 2");
}

TEST(Constraint, CountsProductsBeforeSumsAndFromTheLeft) {
  EXPECT_EQ(CheckText("1 + 2 * n == 7"), "OK");
  EXPECT_EQ(CheckText("(1 + 2) * n == 9"), "OK");
  EXPECT_EQ(CheckText("10 - 2 - n == 5"), "OK");
  EXPECT_EQ(CheckText("-n == 0 - 3"), "OK");
  EXPECT_EQ(CheckText("-(n + 1) == -4"), "OK");
}

TEST(Constraint, HoldsForEachOfAnInputsValues) {
  EXPECT_EQ(CheckText("value(v) >= -rank(x)"), "OK");
  EXPECT_EQ(CheckText("value(v) < rank(x)"), "OK");
  EXPECT_EQ(CheckText("value(v) < 2"), "INVALID_ARGUMENT: must hold: value(v) < 2; found 2 < 2");
  EXPECT_EQ(CheckText("value(none) < 0"), "OK");
}

TEST(Constraint, WaitsForWhatIsNotKnown) {
  for (const char* text :
       {"rank(unknown) == 7", "dim(x, 9) == 7", "value(unknown) == 7", "numel(unknown) + n == 7", "m == 7"})
    EXPECT_EQ(CheckText(text), "OK") << text;
  const auto parsed = ParseConstraints("rank(x) == 7");
  EXPECT_TRUE(Check((*parsed)[0], ConstraintFacts()).ok()) << "nothing is known without facts";
}

TEST(Constraint, DoesNotDecideByANumberThatOverflowed) {
  EXPECT_EQ(CheckText("most + 1 < 0"), "OK");
  EXPECT_EQ(CheckText("most * 2 < 0"), "OK");
  EXPECT_EQ(CheckText("-most - 2 > 0"), "OK");
  EXPECT_EQ(CheckText("most < 0"), "INVALID_ARGUMENT: must hold: most < 0; found 9223372036854775807 < 0");
}

TEST(Constraint, LeavesElementsToTheKernel) {
  const auto parsed = ParseConstraints("element(indices) < dim(params, 0); rank(x) == 7");
  ASSERT_TRUE(parsed.ok());
  EXPECT_TRUE((*parsed)[0].in_kernel);
  EXPECT_FALSE((*parsed)[1].in_kernel);
  EXPECT_EQ((*parsed)[0].text, "element(indices) < dim(params, 0)");
  EXPECT_TRUE(Check((*parsed)[0], Facts()).ok());
}

TEST(Constraint, SaysWhereATextIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"rank(x)", "expected a comparison before '' in 'rank(x)'"},
      {"rank(x) = 3", "expected a comparison before '= 3' in 'rank(x) = 3'"},
      {"rank(x) == ", "expected a term before '' in 'rank(x) == '"},
      {"size(x) == 3", "expected rank, dim, numel, value, element or path before 'x) == 3' in 'size(x) == 3'"},
      {"rank() == 3", "expected an argument's name before ') == 3' in 'rank() == 3'"},
      {"rank(x == 3", "expected ')' before '== 3' in 'rank(x == 3'"},
      {"dim(x) == 3", "expected ',' before ') == 3' in 'dim(x) == 3'"},
      {"dim(x, y) == 3", "expected the dim's index before 'y) == 3' in 'dim(x, y) == 3'"},
      {"(1 + 2 == 3", "expected ')' before '== 3' in '(1 + 2 == 3'"},
      {"1 == 1 == 1", "expected the end before '== 1' in '1 == 1 == 1'"},
      {"path(x) == 3", "expected path(x) alone before '' in 'path(x) == 3'"},
  };
  for (const auto& [text, error] : cases) EXPECT_EQ(CheckText(text), StrCat("INVALID_ARGUMENT: ", error));
  EXPECT_EQ(CheckText(std::string(5000, '(') + "1"),
            "INVALID_ARGUMENT: a constraint of 5001 characters, which begins with '" + std::string(32, '(') +
                "'; at most 512");
  EXPECT_EQ(ParseConstraints(" ; ;").ok() ? ParseConstraints(" ; ;")->size() : 9u, 0u);
}

}  // namespace
}  // namespace tenon::graph::constraint_test
