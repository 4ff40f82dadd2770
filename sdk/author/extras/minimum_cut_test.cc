// SPDX-License-Identifier: Apache-2.0
// Minimum cuts against all ways that there are to put a few things on two sides.
#include "tenon/extras/device/minimum_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace tenon::sdk::minimum_cut_test {
namespace {

struct Priced {
  int near, far;
  int64_t price;
};

int64_t CostOf(const std::vector<Priced>& prices, const std::vector<bool>& near) {
  int64_t cost = 0;
  for (const Priced& each : prices)
    if (near[static_cast<size_t>(each.near)] && !near[static_cast<size_t>(each.far)]) cost += each.price;
  return cost;
}

TEST(MinimumCut, CostsNoMoreThanAnyOtherWayAndPutsNobodyNearForNothing) {
  constexpr int kThings = 9;
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    MinimumCut cut;
    for (int i = 0; i < kThings; ++i) cut.Add();
    std::vector<Priced> prices;
    for (int i = 0; i < 24; ++i) {
      const int near = static_cast<int>(random() % (kThings + 2)), far = static_cast<int>(random() % (kThings + 2));
      if (near == far || near == MinimumCut::kFar || far == MinimumCut::kNear) continue;
      const int64_t price = random() % 6 == 0 && near != MinimumCut::kNear && far != MinimumCut::kFar
                                ? MinimumCut::kNever
                                : static_cast<int64_t>(random() % 20);
      prices.push_back({near, far, price});
      cut.Price(near, far, price);
    }
    const auto near = cut.Solve(1'000'000);
    ASSERT_TRUE(near.has_value());
    EXPECT_TRUE((*near)[MinimumCut::kNear]);
    EXPECT_FALSE((*near)[MinimumCut::kFar]);
    int64_t least = MinimumCut::kNever;
    size_t fewest = 0;
    for (unsigned ways = 0; ways < (1u << kThings); ++ways) {
      std::vector<bool> other(kThings + 2);
      other[MinimumCut::kNear] = true;
      size_t count = 1;
      for (unsigned i = 0; i < kThings; ++i) other[i + 2] = (ways >> i & 1u) != 0, count += other[i + 2] ? 1 : 0;
      const int64_t cost = CostOf(prices, other);
      if (cost < least || (cost == least && count < fewest)) least = cost, fewest = count;
    }
    EXPECT_EQ(CostOf(prices, *near), least) << round;
    EXPECT_EQ(static_cast<size_t>(std::count(near->begin(), near->end(), true)), fewest) << round;
  }
}

TEST(MinimumCut, GivesUpWhereItWouldTakeTooLong) {
  MinimumCut cut;
  int before = MinimumCut::kNear;
  for (int i = 0; i < 1000; ++i) {
    const int next = cut.Add();
    cut.Price(before, next, 1000 - i);
    before = next;
  }
  cut.Price(before, MinimumCut::kFar, 5);
  EXPECT_FALSE(cut.Solve(100).has_value());
  EXPECT_TRUE(cut.Solve(100'000).has_value());
}

}  // namespace
}  // namespace tenon::sdk::minimum_cut_test
