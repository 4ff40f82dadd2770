// SPDX-License-Identifier: Apache-2.0
#include "core/exec/lower/memory_planner.h"
// Covers N3.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace tenon::exec::memory_planner_test {
namespace {

struct Value {
  uint64_t bytes;
  int32_t first, last;
};

std::vector<uint64_t> Plan(const std::vector<Value>& values, uint64_t* total) {
  MemoryPlanner planner;
  for (const Value& value : values) planner.Add(value.bytes, value.first, value.last);
  std::vector<uint64_t> offsets = planner.Plan();
  *total = planner.total();
  return offsets;
}

TEST(MemoryPlanner, NeedsNothingForNothing) {
  uint64_t total = 1;
  EXPECT_TRUE(Plan({}, &total).empty());
  EXPECT_EQ(total, 0u);
}

TEST(MemoryPlanner, UsesMemoryAgainOnceAValueIsDead) {
  uint64_t total = 0;
  const auto offsets = Plan({{100, 0, 1}, {100, 1, 2}, {100, 2, 3}}, &total);
  EXPECT_NE(offsets[0], offsets[1]) << "both live at position 1";
  EXPECT_EQ(offsets[2], offsets[0]);
  EXPECT_EQ(total, 256u);
}

TEST(MemoryPlanner, GrowsAFreeTailInsteadOfAddingToIt) {
  uint64_t total = 0;
  Plan({{640, 0, 0}, {1280, 1, 1}, {64, 2, 2}}, &total);
  EXPECT_EQ(total, 1280u);
}

TEST(MemoryPlanner, JoinsPiecesThatAreFreeSideBySide) {
  uint64_t total = 0;
  const auto offsets = Plan({{64, 0, 1}, {64, 0, 1}, {64, 0, 9}, {128, 2, 3}}, &total);
  EXPECT_EQ(total, 192u);
  EXPECT_EQ(offsets[3], std::min(offsets[0], offsets[1]));
}

TEST(MemoryPlanner, NeverBeginsAgainAtZeroHoweverMuchIsAsked) {
  uint64_t total = 0;
  Plan(std::vector<Value>(9, Value{uint64_t{1} << 61, 0, 1}), &total);
  EXPECT_EQ(total, uint64_t{1} << 62);
}

TEST(MemoryPlanner, GivesEvenEmptyValuesAPlaceOfTheirOwn) {
  uint64_t total = 0;
  const auto offsets = Plan({{0, 0, 1}, {0, 0, 1}}, &total);
  EXPECT_NE(offsets[0], offsets[1]);
  EXPECT_EQ(total, 128u);
}

// Every pair of values is looked at: the planner's own bookkeeping is not trusted.
TEST(MemoryPlanner, NeverSharesMemoryBetweenValuesThatLiveTogether) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::minstd_rand random(seed + 1);
    const auto below = [&random](uint32_t n) { return static_cast<uint32_t>(random() % n); };
    const uint32_t count = 1 + below(60), positions = 1 + below(40);
    std::vector<Value> values;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; ++i) {
      const auto first = static_cast<int32_t>(below(positions));
      values.push_back(
          {below(4) == 0 ? below(8) : below(5000), first, first + static_cast<int32_t>(below(1 + positions / 2))});
      sum += (std::max<uint64_t>(values.back().bytes, 1) + 63) / 64 * 64;
    }
    uint64_t total = 0;
    const std::vector<uint64_t> offsets = Plan(values, &total);
    ASSERT_EQ(offsets.size(), values.size());
    uint64_t most_alive = 0;
    for (size_t a = 0; a < values.size(); ++a) {
      EXPECT_EQ(offsets[a] % 64, 0u);
      EXPECT_LE(offsets[a] + values[a].bytes, total);
      uint64_t alive = 0;
      for (size_t b = 0; b < values.size(); ++b) {
        if (values[b].first <= values[a].first && values[a].first <= values[b].last) alive += values[b].bytes;
        if (a == b || values[a].last < values[b].first || values[b].last < values[a].first) continue;
        const uint64_t a_end = offsets[a] + std::max<uint64_t>(values[a].bytes, 1),
                       b_end = offsets[b] + std::max<uint64_t>(values[b].bytes, 1);
        ASSERT_TRUE(a_end <= offsets[b] || b_end <= offsets[a]) << "seed " << seed << ": values " << a << " and " << b;
      }
      most_alive = std::max(most_alive, alive);
    }
    EXPECT_LE(total, sum) << "seed " << seed;
    EXPECT_GE(total, most_alive) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tenon::exec::memory_planner_test
