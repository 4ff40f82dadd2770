// SPDX-License-Identifier: Apache-2.0
// The clocks of tasks on other machines, for traces. Covers R3.
#include "net/cluster/clock_difference.h"

#include <gtest/gtest.h>

namespace tenon::cluster::clock_difference_test {
namespace {

constexpr int64_t kMs = 1000000;

// What is said of a clock that is so far ahead, where the ways and the work take so long.
int64_t Said(int64_t ahead, int64_t there, int64_t work, int64_t back) {
  constexpr int64_t kCalled = int64_t{3600000} * kMs;
  const int64_t came = kCalled + there + ahead;
  return ClockAheadNs(kCalled, static_cast<uint64_t>(came), static_cast<uint64_t>(came + work),
                      static_cast<uint64_t>(kCalled + there + work + back));
}

TEST(ClockDifference, IsFoundToHalfOfTheDifferenceOfTheWays) {
  for (const int64_t ahead : {-3600000 * kMs + 10 * kMs, -500 * kMs, -20 * kMs, 20 * kMs, 1000000000 * kMs}) {
    EXPECT_EQ(Said(ahead, 2 * kMs, 7 * kMs, 2 * kMs), ahead);
    EXPECT_EQ(Said(ahead, 5 * kMs, 7 * kMs, 1 * kMs), ahead + 2 * kMs) << "the call was on its way for longer";
    EXPECT_EQ(Said(ahead, 1 * kMs, 7 * kMs, 5 * kMs), ahead - 2 * kMs);
  }
}

// A worker of the same machine has this clock, to the nanosecond; another's may be as near only where nothing tells
// them apart.
TEST(ClockDifference, OfWhatMayBeOneClockIsNone) {
  EXPECT_EQ(Said(0, 5 * kMs, 7 * kMs, 1 * kMs), 0);
  EXPECT_EQ(Said(0, 0, 0, 0), 0);
  EXPECT_EQ(Said(-2 * kMs, 2 * kMs, 7 * kMs, 2 * kMs), 0);
  EXPECT_EQ(Said(2 * kMs, 2 * kMs, 7 * kMs, 2 * kMs), 0);
  EXPECT_EQ(Said(2 * kMs + 1, 2 * kMs, 7 * kMs, 2 * kMs), 2 * kMs + 1) << "the answer would have come before it went";
}

}  // namespace
}  // namespace tenon::cluster::clock_difference_test
