// SPDX-License-Identifier: Apache-2.0
#include "core/base/checked.h"

#include <gtest/gtest.h>

#include <limits>

namespace tenon::checked_test {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

TEST(CheckedMultiply, SaysWhenAProductDoesNotFit) {
  int64_t out = 0;
  EXPECT_TRUE(CheckedMultiply(-3, 7, &out));
  EXPECT_EQ(out, -21);
  EXPECT_TRUE(CheckedMultiply(kMost, 1, &out));
  EXPECT_EQ(out, kMost);
  EXPECT_TRUE(CheckedMultiply(int64_t{1} << 31, int64_t{1} << 31, &out));
  EXPECT_EQ(out, int64_t{1} << 62);
  EXPECT_FALSE(CheckedMultiply(int64_t{1} << 32, int64_t{1} << 31, &out));
  EXPECT_FALSE(CheckedMultiply(kLeast, -1, &out));
}

TEST(CheckedAdd, SaysWhenASumDoesNotFit) {
  int64_t out = 0;
  EXPECT_TRUE(CheckedAdd(kMost - 1, 1, &out));
  EXPECT_EQ(out, kMost);
  EXPECT_FALSE(CheckedAdd(kMost, 1, &out));
  EXPECT_FALSE(CheckedAdd(kLeast, -1, &out));
}

TEST(RoundUp, GoesToTheNextMultiple) {
  EXPECT_EQ(RoundUp(0, 64), 0u);
  EXPECT_EQ(RoundUp(1, 64), 64u);
  EXPECT_EQ(RoundUp(64, 64), 64u);
  EXPECT_EQ(RoundUp(65, 64), 128u);
}

}  // namespace
}  // namespace tenon::checked_test
