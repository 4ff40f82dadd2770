// SPDX-License-Identifier: Apache-2.0
#include "core/base/clock.h"

#include <gtest/gtest.h>

namespace tenon::clock_test {
namespace {

TEST(Clock, NeverGoesBack) {
  const uint64_t first = NowNs();
  EXPECT_GE(NowNs(), first);
}

TEST(Clock, IsReplacedAndBroughtBack) {
  const uint64_t before = NowNs();
  SetClock([]() -> uint64_t { return 42; });
  EXPECT_EQ(NowNs(), 42u);
  SetClock(nullptr);
  EXPECT_GE(NowNs(), before);
}

}  // namespace
}  // namespace tenon::clock_test
