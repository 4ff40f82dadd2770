// SPDX-License-Identifier: Apache-2.0
#include "core/exec/threads/host_threads.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <vector>

namespace tenon::exec::host_threads_test {
namespace {

constexpr std::chrono::seconds kLong(60);
constexpr double kBig = 1e5;  // nanoseconds of a unit: shared among threads

// How often each index was covered.
struct Cover {
  explicit Cover(int64_t total) : counts(static_cast<size_t>(total)) {}
  static void Range(void* argument, int64_t begin, int64_t end) {
    auto* self = static_cast<Cover*>(argument);
    self->calls.fetch_add(1);
    for (int64_t i = begin; i < end; ++i) self->counts[i].fetch_add(1, std::memory_order_relaxed);
  }
  bool Once() const {
    for (const auto& count : counts)
      if (count.load() != 1) return false;
    return true;
  }
  std::vector<std::atomic<int>> counts;
  std::atomic<int> calls{0};
};

TEST(HostThreads, CoverEachIndexOnce) {
  for (uint32_t count : {1u, 2u, 4u}) {
    HostThreads threads(count);
    for (int64_t total : {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{17}, int64_t{1000}, int64_t{4097}})
      for (double cost : {0.0, 1.0, 1000.0, kBig}) {
        Cover cover(total);
        threads.Run(total, cost, &Cover::Range, &cover);
        EXPECT_TRUE(cover.Once()) << count << " threads, " << total << " of " << cost << " ns";
      }
  }
}

TEST(HostThreads, CallNothingForNothing) {
  HostThreads threads(2);
  Cover cover(0);
  threads.Run(0, kBig, &Cover::Range, &cover);
  threads.Run(-5, kBig, &Cover::Range, &cover);
  EXPECT_EQ(cover.calls.load(), 0);
}

TEST(HostThreads, DoNotShareWhatIsSmall) {
  HostThreads threads(4);
  Cover cover(100);
  threads.Run(100, 1.0, &Cover::Range, &cover);
  EXPECT_EQ(cover.calls.load(), 1);
  EXPECT_EQ(HostThreads(0).threads(), 1u);
}

TEST(HostThreads, RunNoMoreAtOnceThanThereAreCores) {
  EXPECT_EQ(HostThreads(1).at_once(), 1u);
  cpu_set_t allowed, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  HostThreads many(64);
  EXPECT_EQ(many.threads(), 64u);
  EXPECT_EQ(many.at_once(), static_cast<uint32_t>(std::min(64, CPU_COUNT(&allowed))));
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(HostThreads(4).at_once(), 1u);
  ASSERT_EQ(sched_setaffinity(0, sizeof(allowed), &allowed), 0);
}

TEST(HostThreads, CoverEachIndexOnceWhenAShareSharesAgain) {
  HostThreads threads(3);
  struct Nested {
    HostThreads* threads;
    std::vector<std::unique_ptr<Cover>> inner;
  } nested{&threads, {}};
  for (int i = 0; i < 40; ++i) nested.inner.push_back(std::make_unique<Cover>(300));
  for (int round = 0; round < 20; ++round) {
    for (auto& cover : nested.inner) cover = std::make_unique<Cover>(300);
    threads.Run(
        40, kBig,
        [](void* argument, int64_t begin, int64_t end) {
          auto* self = static_cast<Nested*>(argument);
          for (int64_t i = begin; i < end; ++i) self->threads->Run(300, kBig, &Cover::Range, self->inner[i].get());
        },
        &nested);
    for (const auto& cover : nested.inner) ASSERT_TRUE(cover->Once());
  }
}

TEST(HostThreads, ServeSeveralStepsAtOnce) {
  HostThreads threads(3);
  std::vector<std::thread> steps;
  for (int s = 0; s < 4; ++s)
    steps.emplace_back([&threads] {
      for (int round = 0; round < 100; ++round) {
        Cover cover(257);
        threads.Run(257, kBig, &Cover::Range, &cover);
        ASSERT_TRUE(cover.Once());
      }
    });
  for (std::thread& step : steps) step.join();
}

TEST(HostThreads, WaitForAHelperThatTakesLong) {
  HostThreads threads(2);
  struct Slow {
    const std::thread::id caller = std::this_thread::get_id();
    std::atomic<int> begun{0}, ended{0};
  } slow;
  for (int round = 0; round < 10; ++round) {
    slow.begun = slow.ended = 0;
    threads.Run(
        2, kBig,
        [](void* argument, int64_t begin, int64_t end) {
          auto* self = static_cast<Slow*>(argument);
          self->begun += static_cast<int>(end - begin);
          if (std::this_thread::get_id() != self->caller) std::this_thread::sleep_for(std::chrono::milliseconds(5));
          self->ended += static_cast<int>(end - begin);
        },
        &slow);
    ASSERT_EQ(slow.begun.load(), 2);
    ASSERT_EQ(slow.ended.load(), 2);
  }
}

TEST(HostThreads, CoverEachIndexOnceWhenHelpersOfferTheirCoresBetween) {
  HostThreads threads(4);
  for (int round = 0; round < 5; ++round) {
    Cover cover(64);
    threads.Run(
        64, kBig,
        [](void* argument, int64_t begin, int64_t end) {
          Cover::Range(argument, begin, end);
          const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(200) * (end - begin);
          while (std::chrono::steady_clock::now() < until) {
          }
        },
        &cover);
    ASSERT_TRUE(cover.Once());
  }
}

// A helper that finds itself on the caller's core leaves it, and no more than that.
TEST(HostThreads, HelpersMayUseTheCoresThatTheProcessMayUse) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  HostThreads threads(4);
  struct Seen {
    const std::thread::id caller = std::this_thread::get_id();
    cpu_set_t allowed;
    std::atomic<int> wrong{0};
  } seen{.allowed = allowed};
  for (int round = 0; round < 200; ++round)
    threads.Run(
        16, kBig,
        [](void* argument, int64_t, int64_t) {
          auto* self = static_cast<Seen*>(argument);
          cpu_set_t own;
          if (sched_getaffinity(0, sizeof(own), &own) != 0 || !CPU_EQUAL(&own, &self->allowed)) ++self->wrong;
          if (std::this_thread::get_id() == self->caller) sched_yield();  // a helper may be put here
        },
        &seen);
  EXPECT_EQ(seen.wrong.load(), 0);
}

TEST(HostThreads, RunAnyNumberOfTasksThatWaitForEachOther) {
  HostThreads threads(1);
  constexpr int kTasks = 300;
  std::atomic<int> here{0};
  std::promise<void> all;
  std::shared_future<void> met = all.get_future().share();
  std::vector<std::future<bool>> results;
  for (int i = 0; i < kTasks; ++i) {
    auto result = std::make_shared<std::promise<bool>>();
    results.push_back(result->get_future());
    const Status taken = threads.ScheduleWaiting([&, result] {
      if (here.fetch_add(1) + 1 == kTasks) all.set_value();
      result->set_value(met.wait_for(kLong) == std::future_status::ready);
    });
    ASSERT_TRUE(taken.ok()) << taken.message();
  }
  for (auto& result : results) EXPECT_TRUE(result.get()) << "each task has a thread of its own";
}

TEST(HostThreads, RunWhatIsScheduledBeforeTheyEnd) {
  std::atomic<int> ran{0};
  {
    HostThreads threads(2);
    for (int i = 0; i < 500; ++i) {
      EXPECT_TRUE(threads.Schedule([&ran] { ran.fetch_add(1); }).ok());
      EXPECT_TRUE(threads.ScheduleWaiting([&ran] { ran.fetch_add(1); }).ok());
    }
  }
  EXPECT_EQ(ran.load(), 1000);
}

}  // namespace
}  // namespace tenon::exec::host_threads_test
