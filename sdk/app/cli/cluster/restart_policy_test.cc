// SPDX-License-Identifier: Apache-2.0
// When a task is started again, on a clock that the test moves.
#include "sdk/app/cli/cluster/restart_policy.h"

#include <gtest/gtest.h>

namespace tenon::cli::restart_policy_test {
namespace {

using namespace std::chrono_literals;  // NOLINT: of a test

TEST(RestartPolicy, PausesGrowAndThenItGivesUp) {
  RestartPolicy policy({100ms, 1s, 60s, 6});
  std::chrono::nanoseconds now = 1000s;
  for (const auto wanted : {100ms, 200ms, 400ms, 800ms, 1000ms, 1000ms}) {
    const auto pause = policy.Died(now);
    ASSERT_TRUE(pause.has_value());
    EXPECT_EQ(*pause, wanted);
    now += *pause;
  }
  EXPECT_FALSE(policy.Died(now).has_value());
  EXPECT_FALSE(policy.Died(now + 1s).has_value()) << "still";
}

// One that dies at once, for as long as anybody looks: so many starts, and no more.
TEST(RestartPolicy, ATaskThatAlwaysDiesIsStartedALimitedNumberOfTimes) {
  RestartPolicy policy;
  std::chrono::nanoseconds now = 0s;
  size_t starts = 0;
  for (auto pause = policy.Died(now); pause; pause = policy.Died(now)) {
    now += *pause;
    ASSERT_LE(++starts, 1000u);
  }
  EXPECT_EQ(starts, policy.limits().most);
}

TEST(RestartPolicy, DeathsLongAgoAreForgotten) {
  RestartPolicy policy({100ms, 1s, 60s, 3});
  for (int i = 0; i < 100; ++i) EXPECT_EQ(policy.Died(i * 61s), 100ms) << i;
  EXPECT_EQ(policy.Died(99 * 61s + 1s), 200ms);
}

}  // namespace
}  // namespace tenon::cli::restart_policy_test
