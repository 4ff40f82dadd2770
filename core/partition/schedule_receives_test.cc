// SPDX-License-Identifier: Apache-2.0
// Covers A5, H9, N3.
#include "core/partition/schedule_receives.h"

#include <gtest/gtest.h>

#include <random>

namespace tenon::partition::schedule_receives_test {
namespace {

// Tasks on lane 0 that each read a value of their own, which is there from the start.
ReceiveProblem Chain(int count, double task_seconds, double crossing_seconds) {
  ReceiveProblem problem;
  problem.lanes = problem.links = 1;
  for (int32_t i = 0; i < count; ++i) {
    problem.crossings.push_back({-1, 0, 0, crossing_seconds, 100});
    problem.tasks.push_back({0, task_seconds, {}, {i}});
    if (i > 0) problem.tasks.back().after = {i - 1};
  }
  return problem;
}

TEST(ScheduleReceives, PutsEachValueOffUntilTheTaskBeforeItsReader) {
  const ReceiveSchedule schedule = ScheduleReceives(Chain(6, 2, 1));
  EXPECT_EQ(schedule.before, (std::vector<int32_t>{0, 0, 1, 2, 3, 4}));
  EXPECT_DOUBLE_EQ(schedule.earliest_seconds, 13);
  EXPECT_DOUBLE_EQ(schedule.seconds, 13);
  EXPECT_DOUBLE_EQ(schedule.earliest_bytes[0], 600);
  EXPECT_DOUBLE_EQ(schedule.bytes[0], 200) << "the one that is read, and the one on its way";
}

TEST(ScheduleReceives, LeavesALinkThatIsNeverFreeAsItIs) {
  const ReceiveSchedule schedule = ScheduleReceives(Chain(5, 1, 2));
  EXPECT_DOUBLE_EQ(schedule.seconds, schedule.earliest_seconds);
  EXPECT_DOUBLE_EQ(schedule.seconds, 11);
}

TEST(ScheduleReceives, BringsWhatCostsNothingJustBeforeItIsRead) {
  const ReceiveSchedule schedule = ScheduleReceives(Chain(4, 1, 0));
  EXPECT_EQ(schedule.before, (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_DOUBLE_EQ(schedule.bytes[0], 100);
}

TEST(ScheduleReceives, KnowsHowMuchLaterATaskCouldStart) {
  // Task 1 has nothing to wait for; task 2 needs task 0 of the other lane and task 1.
  ReceiveProblem problem;
  problem.lanes = 2;
  problem.links = 1;
  problem.tasks = {{1, 5, {}, {}}, {0, 1, {}, {}}, {0, 1, {1}, {0}}};
  problem.crossings = {{0, 0, 0, 2, 8}};
  const ReceiveSchedule schedule = ScheduleReceives(problem);
  EXPECT_DOUBLE_EQ(schedule.seconds, 8);
  EXPECT_EQ(schedule.slack, (std::vector<double>{0, 6, 0}));
}

ReceiveProblem Random(uint32_t seed) {
  std::mt19937 random(seed);
  const auto draw = [&](uint32_t below) { return static_cast<int32_t>(random() % below); };
  ReceiveProblem problem;
  problem.lanes = 1 + draw(3);
  problem.links = 1 + draw(2);
  const int32_t count = 2 + draw(30);
  for (int32_t i = 0; i < count; ++i) {
    ReceiveProblem::Task task{draw(static_cast<uint32_t>(problem.lanes)), static_cast<double>(draw(5)), {}, {}};
    for (int32_t k = draw(3); k > 0 && i > 0; --k) {
      const int32_t from = draw(static_cast<uint32_t>(i));
      if (problem.tasks[from].lane == task.lane) {
        task.after.push_back(from);
      } else {
        task.crossings.push_back(static_cast<int32_t>(problem.crossings.size()));
        problem.crossings.push_back(
            {from, task.lane, draw(static_cast<uint32_t>(problem.links)), static_cast<double>(draw(4)), 1.0 + draw(9)});
      }
    }
    if (draw(3) == 0) {
      task.crossings.push_back(static_cast<int32_t>(problem.crossings.size()));
      problem.crossings.push_back(
          {-1, task.lane, draw(static_cast<uint32_t>(problem.links)), static_cast<double>(draw(4)), 1.0 + draw(9)});
    }
    problem.tasks.push_back(std::move(task));
  }
  return problem;
}

TEST(ScheduleReceives, NeverMakesAStepLongerNorItsMemoryLarger) {
  int smaller = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    const ReceiveProblem problem = Random(seed);
    const ReceiveSchedule schedule = ScheduleReceives(problem);
    ASSERT_LE(schedule.seconds, schedule.earliest_seconds * (1 + 1e-9)) << seed;
    for (size_t c = 0; c < problem.crossings.size(); ++c) {
      ASSERT_GT(schedule.before[c], problem.crossings[c].producer) << seed;
      for (size_t i = 0; i < problem.tasks.size(); ++i)
        for (int32_t read : problem.tasks[i].crossings)
          ASSERT_TRUE(read != static_cast<int32_t>(c) || schedule.before[c] <= static_cast<int32_t>(i)) << seed;
    }
    bool falls = false;
    for (size_t lane = 0; lane < schedule.bytes.size(); ++lane) {
      ASSERT_LE(schedule.bytes[lane], schedule.earliest_bytes[lane]) << seed;
      falls = falls || schedule.bytes[lane] < schedule.earliest_bytes[lane];
    }
    smaller += falls;
    for (double slack : schedule.slack) ASSERT_GE(slack, 0) << seed;
  }
  EXPECT_GT(smaller, 1500);
}

}  // namespace
}  // namespace tenon::partition::schedule_receives_test
