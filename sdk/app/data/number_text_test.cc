// SPDX-License-Identifier: Apache-2.0
#include "tenon/data/number_text.h"

#include <gtest/gtest.h>

namespace tenon::data::number_text_test {
namespace {

TEST(FormatCount, CountsInThousands) {
  EXPECT_EQ("0", FormatCount(0));
  EXPECT_EQ("999", FormatCount(999));
  EXPECT_EQ("1,000", FormatCount(1000));
  EXPECT_EQ("-1,234,567", FormatCount(-1234567));
  EXPECT_EQ("-123", FormatCount(-123));
}

TEST(FormatDuration, SaysTheTwoLargestUnits) {
  EXPECT_EQ("59 s", FormatDuration(59.4));
  EXPECT_EQ("3 min 5 s", FormatDuration(185));
  EXPECT_EQ("2 h 10 min", FormatDuration(7805));
  EXPECT_EQ("a long time", FormatDuration(-1));
}

}  // namespace
}  // namespace tenon::data::number_text_test
