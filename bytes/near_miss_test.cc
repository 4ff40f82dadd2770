// SPDX-License-Identifier: Apache-2.0
#include "tenon/bytes/near_miss.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tenon::sdk::near_miss_test
