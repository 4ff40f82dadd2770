// SPDX-License-Identifier: Apache-2.0
// Simulated clusters hold what they promise, equal seeds make equal runs, and each planted bug (failpoint) is found. Covers J1, J2, J3, J6, R9.
//
// It takes two minutes and more of a core, a quarter in each shard: a run is a whole cluster that trains, thread by thread, and some bugs are rare.
//
// TENON_SIMULATION_SEEDS=2000 runs more, TENON_SIMULATION_FIRST=100 from there; a seed that fails is run again and explained by
// build/release/tests/bin/simulate --seed N --tell.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "net/cluster/planted.h"
#include "tests/simulation/world.h"

namespace tenon::simulation {
namespace {

uint64_t Wished(const char* name, uint64_t otherwise) {
  const char* wished = std::getenv(name);
  return wished == nullptr ? otherwise : std::strtoull(wished, nullptr, 10);
}

// Twenty-five seeds a test, so that shards of the program have their share.
constexpr uint64_t kOfATest = 25;
const uint64_t kFirst = Wished("TENON_SIMULATION_FIRST", 1), kEnd = kFirst + Wished("TENON_SIMULATION_SEEDS", 200);

class Seeds : public testing::TestWithParam<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(From, Seeds, testing::Range(kFirst, kEnd, kOfATest), testing::PrintToStringParamName());

TEST_P(Seeds, AllHold) {
  Prepare();
  int64_t steps = 0;
  int faults = 0;
  const uint64_t end = std::min(GetParam() + kOfATest, kEnd);
  for (uint64_t seed = GetParam(); seed < end; ++seed) {
    const Outcome outcome = Simulate({.seed = seed});
    EXPECT_EQ(outcome.violation, "") << "seed " << seed;
    steps += outcome.steps;
    faults += outcome.faults;
  }
  EXPECT_GT(steps, static_cast<int64_t>(end - GetParam()));
  EXPECT_GT(faults, 0);
}

TEST(SimulationTest, EqualSeedsMakeEqualRuns) {
  Prepare();
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Outcome one = Simulate({.seed = seed}), other = Simulate({.seed = seed});
    EXPECT_EQ(one.trace, other.trace) << "seed " << seed;
    EXPECT_EQ(one.switches, other.switches) << "seed " << seed;
    EXPECT_EQ(one.simulated_ns, other.simulated_ns) << "seed " << seed;
  }
  EXPECT_NE(Simulate({.seed = 1}).trace, Simulate({.seed = 2}).trace);
}

class PlantedBug : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Each, PlantedBug, testing::Range(1, static_cast<int>(cluster::Bug::kCount)));

// The seed by which each was found when this was last written. It is tried first, since the rarest shows in one of a thousand; what runs otherwise since
// then moves it, and it costs minutes until the seed that the test then says stands here.
constexpr uint64_t kFoundBy[] = {5, 276, 1774, 77, 41, 14, 1, 79, 5, 7, 762, 1047, 11, 3, 1047, 3, 15, 3, 1, 39};
static_assert(std::size(kFoundBy) + 1 == static_cast<size_t>(cluster::Bug::kCount));

TEST_P(PlantedBug, IsFoundWithinSixThousandSeeds) {
  Prepare();
  const uint64_t last = kFoundBy[GetParam() - 1];
  EXPECT_EQ(Simulate({.seed = last}).violation, "") << "without the bug";
  if (!Simulate({.seed = last, .planted_bug = GetParam()}).violation.empty()) return;
  for (uint64_t seed = 1; seed <= 6000; ++seed) {
    const Outcome outcome = Simulate({.seed = seed, .planted_bug = GetParam()});
    if (outcome.violation.empty()) continue;
    std::printf("planted bug %d: kFoundBy says seed %d, and it is found by %d: %s\n", GetParam(), static_cast<int>(last), static_cast<int>(seed),
                outcome.violation.substr(0, 200).c_str());
    return;
  }
  ADD_FAILURE() << "planted bug " << GetParam() << " was not found";
}

}  // namespace
}  // namespace tenon::simulation
