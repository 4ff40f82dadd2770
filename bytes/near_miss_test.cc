// SPDX-License-Identifier: Apache-2.0
#include "tenon/bytes/near_miss.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tenon::sdk::near_miss_test {
namespace {

// Names of strangers may have megabytes: to compare two of them would take their product.
TEST(NearMiss, LeavesLongNamesAlone) {
  const std::string longest(NearMiss::kLongest, 'a'), longer(NearMiss::kLongest + 1, 'a'), huge(1 << 24, 'a');
  const auto hint = [](std::string_view wrong, std::string_view known) {
    NearMiss near(wrong);
    near.Try(known);
    return near.Hint();
  };
  EXPECT_EQ(hint(longest, longest.substr(1) + "b"), "; did you mean '" + longest.substr(1) + "b'?");
  EXPECT_EQ(hint(longer, longest), "");
  EXPECT_EQ(hint(longest, huge), "");
  EXPECT_EQ(hint(huge, huge.substr(1)), "");
  EXPECT_EQ(hint("MatMul", "MatMull"), "; did you mean 'MatMull'?");
  EXPECT_EQ(hint("MatMul", "Conv2D"), "");
  EXPECT_EQ(hint("yy", "y"), "; did you mean 'y'?");
  EXPECT_EQ(hint("y", "x"), "");
  EXPECT_EQ(hint("", "x"), "");
}

TEST(NearMiss, LetsASharedScopeExcuseNothing) {
  const auto hint = [](std::string_view wrong, std::string_view known) {
    NearMiss near(wrong);
    near.Try(known);
    return near.Hint();
  };
  EXPECT_EQ(hint("tenon.absent", "tenon.ops.nn"), "") << "five slips in six letters";
  EXPECT_EQ(hint("model/layer/bias", "model/layer/kernel"), "");
  EXPECT_EQ(hint("tenon.cpi", "tenon.cpu"), "; did you mean 'tenon.cpu'?");
  EXPECT_EQ(hint("tneon.cpu", "tenon.cpu"), "; did you mean 'tenon.cpu'?");
  EXPECT_EQ(hint("tenon.", "tenon.cpu"), "");
}

TEST(EditDistance, CountsWhatWasTypedWrong) {
  EXPECT_EQ(EditDistance("", ""), 0u);
  EXPECT_EQ(EditDistance("", "run"), 3u);
  EXPECT_EQ(EditDistance("run", "run"), 0u);
  EXPECT_EQ(EditDistance("rn", "run"), 1u);
  EXPECT_EQ(EditDistance("rnu", "run"), 1u) << "two neighbours swapped are one slip";
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
}

// By its definition: what the last character of each may have been, over all shorter beginnings.
size_t DistanceOf(std::string_view a, std::string_view b) {
  if (a.empty() || b.empty()) return a.size() + b.size();
  const std::string_view less_a = a.substr(0, a.size() - 1), less_b = b.substr(0, b.size() - 1);
  size_t least = std::min({DistanceOf(less_a, b) + 1, DistanceOf(a, less_b) + 1,
                           DistanceOf(less_a, less_b) + (a.back() == b.back() ? 0 : 1)});
  if (!less_a.empty() && !less_b.empty() && a.back() == less_b.back() && less_a.back() == b.back())
    least = std::min(least, DistanceOf(less_a.substr(0, less_a.size() - 1), less_b.substr(0, less_b.size() - 1)) + 1);
  return least;
}
TEST(EditDistance, IsThatOfItsDefinitionUpToABound) {
  std::mt19937 random(1);
  const auto word = [&] {
    std::string text(random() % 7, ' ');
    for (char& c : text) c = static_cast<char>('a' + random() % 3);
    return text;
  };
  for (int i = 0; i < 1000; ++i) {
    const std::string a = word(), b = word();
    const size_t right = DistanceOf(a, b), bound = random() % 8;
    EXPECT_EQ(EditDistance(a, b), right) << a << ", " << b;
    const size_t found = EditDistance(a, b, bound);
    if (right < bound) EXPECT_EQ(found, right) << a << ", " << b << ", " << bound;
    else EXPECT_GE(found, bound) << a << ", " << b << ", " << bound;
  }
}

}  // namespace
}  // namespace tenon::sdk::near_miss_test
