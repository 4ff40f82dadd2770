// SPDX-License-Identifier: Apache-2.0
#include "core/base/cancellation.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/base/clock.h"

namespace tenon::cancellation_test {
namespace {

constexpr std::chrono::seconds kLong(60);  // nothing waits so long unless it is broken

TEST(Cancellation, KeepsTheFirstReason) {
  Cancellation cancellation;
  EXPECT_FALSE(cancellation.cancelled());
  cancellation.Cancel(Status(Code::kCancelled, "first"));
  cancellation.Cancel(Status(Code::kDeadlineExceeded, "second"));
  EXPECT_TRUE(cancellation.cancelled());
  EXPECT_EQ(cancellation.reason().ToString(), "CANCELLED: first");
}

TEST(Cancellation, CallsEachSubscriberOnceWithTheReason) {
  Cancellation cancellation;
  std::vector<std::string> heard;
  const uint64_t a = cancellation.Subscribe([&](const Status& reason) { heard.push_back("a " + reason.ToString()); });
  const uint64_t b = cancellation.Subscribe([&](const Status& reason) { heard.push_back("b " + reason.ToString()); });
  EXPECT_NE(a, 0u);
  EXPECT_NE(a, b);
  EXPECT_TRUE(cancellation.Unsubscribe(a));
  EXPECT_FALSE(cancellation.Unsubscribe(a)) << "it is gone";
  cancellation.Cancel(Status(Code::kCancelled, "stop"));
  cancellation.Cancel(Status(Code::kCancelled, "again"));
  EXPECT_EQ(heard, std::vector<std::string>{"b CANCELLED: stop"});
  EXPECT_FALSE(cancellation.Unsubscribe(b));
}

TEST(Cancellation, TakesNoSubscriberOnceCancelled) {
  Cancellation cancellation;
  cancellation.Cancel(Status(Code::kCancelled, "stop"));
  EXPECT_EQ(cancellation.Subscribe([](const Status&) { FAIL() << "too late"; }), 0u);
}

TEST(Cancellation, LetsACallbackUnsubscribeItselfAndOthers) {
  Cancellation cancellation;
  uint64_t self = 0, other = 0;
  bool self_gone = true, other_gone = false;
  self = cancellation.Subscribe([&](const Status&) {
    self_gone = cancellation.Unsubscribe(self);
    other_gone = cancellation.Unsubscribe(other);
  });
  other = cancellation.Subscribe([](const Status&) { FAIL() << "unsubscribed before its turn"; });
  cancellation.Cancel(Status(Code::kCancelled, "stop"));
  EXPECT_FALSE(self_gone) << "it runs now";
  EXPECT_TRUE(other_gone);
}

TEST(Cancellation, TellsOthersWhereOneThrows) {
  Cancellation cancellation;
  bool heard = false;
  const Subscription first(&cancellation, [](const Status&) { throw std::runtime_error("on purpose"); });
  const Subscription second(&cancellation, [&](const Status&) { heard = true; });
  cancellation.Cancel(Status(Code::kCancelled, "stop"));
  EXPECT_TRUE(heard);
}

TEST(Subscription, HearsOfACancellationOnceAndInTurn) {
  Cancellation cancellation;
  std::vector<std::string> heard;
  const auto note = [&heard](const char* who) {
    return [&heard, who](const Status& reason) { heard.push_back(who + reason.ToString()); };
  };
  Subscription a(&cancellation, note("a ")), b(&cancellation, note("b ")), c(&cancellation, note("c ")),
      d(&cancellation, note("d "));
  EXPECT_TRUE(b.End());
  EXPECT_FALSE(b.End()) << "it is over";
  { const Subscription gone(&cancellation, note("gone ")); }
  EXPECT_TRUE(b.Begin(&cancellation, note("b again ")));
  EXPECT_TRUE(d.End());
  cancellation.Cancel(Status(Code::kCancelled, "stop"));
  cancellation.Cancel(Status(Code::kCancelled, "again"));
  EXPECT_EQ(heard, (std::vector<std::string>{"a CANCELLED: stop", "c CANCELLED: stop", "b again CANCELLED: stop"}));
  EXPECT_FALSE(a.End());
}

TEST(Subscription, ListensToOneAtATime) {
  Cancellation before, now;
  int heard = 0;
  Subscription subscription(&before, [](const Status&) { FAIL() << "it listens to another"; });
  EXPECT_TRUE(subscription.Begin(&now, [&](const Status&) { ++heard; }));
  before.Cancel(Status(Code::kCancelled, "stop"));
  now.Cancel(Status(Code::kCancelled, "stop"));
  EXPECT_EQ(heard, 1);
}

TEST(Subscription, HearsAtOnceOfWhatIsCancelledAlready) {
  Cancellation cancellation;
  cancellation.Cancel(Status(Code::kCancelled, "stop"));
  std::string heard;
  Subscription late;
  EXPECT_FALSE(late.Begin(&cancellation, [&](const Status& reason) { heard = reason.ToString(); }));
  EXPECT_EQ(heard, "CANCELLED: stop");
  EXPECT_FALSE(late.End());
}

TEST(Subscription, MayEndInItsOwnCallback) {
  Cancellation cancellation;
  std::string heard;
  auto self = std::make_unique<Subscription>();
  self->Begin(&cancellation, [&heard, &self, kept = std::string(100, 'x')](const Status&) {
    self.reset();
    heard = kept;  // is there as long as the callback
  });
  cancellation.Cancel(Status(Code::kCancelled, "stop"));
  EXPECT_EQ(heard, std::string(100, 'x'));
}

TEST(Cancellation, WaitsInUnsubscribeForACallbackThatRuns) {
  Cancellation cancellation;
  std::promise<void> began, may_end, asked;
  std::atomic<bool> ended{false};
  const uint64_t token = cancellation.Subscribe([&](const Status&) {
    began.set_value();
    may_end.get_future().wait();
    ended.store(true);
  });
  std::thread canceller([&] { cancellation.Cancel(Status(Code::kCancelled, "stop")); });
  began.get_future().wait();
  std::thread unsubscriber([&] {
    asked.set_value();
    EXPECT_FALSE(cancellation.Unsubscribe(token));
    EXPECT_TRUE(ended.load()) << "what the callback uses may go away after Unsubscribe";
  });
  asked.get_future().wait();
  may_end.set_value();
  canceller.join();
  unsubscriber.join();
}

// Whatever the moment: the callback has run, or will never run.
TEST(Cancellation, DecidesEachRaceOfSubscribersAndACancel) {
  for (int round = 0; round < 200; ++round) {
    Cancellation cancellation;
    std::atomic<int> ready{0};
    const auto meet = [&ready] {
      ready.fetch_add(1);
      while (ready.load() < 4) std::this_thread::yield();
    };
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([&] {
        meet();
        for (int i = 0; i < 20; ++i) {
          std::atomic<int> calls{0};  // goes out of scope at once
          const uint64_t token = cancellation.Subscribe([&calls](const Status&) { calls.fetch_add(1); });
          const bool gone = token != 0 && cancellation.Unsubscribe(token);
          EXPECT_EQ(calls.load(), token == 0 || gone ? 0 : 1);
        }
      });
    meet();
    cancellation.Cancel(Status(Code::kCancelled, "stop"));
    for (std::thread& thread : threads) thread.join();
  }
}

// A cancellation whose end can be waited for.
struct Watched {
  Cancellation cancellation;
  std::promise<std::string> reason;
  Watched() {
    cancellation.Subscribe([this](const Status& status) { reason.set_value(status.ToString()); });
  }
  std::string Wait() {
    auto future = reason.get_future();
    return future.wait_for(kLong) == std::future_status::ready ? future.get() : "never";
  }
};

TEST(DeadlineWatcher, CancelsWhenADeadlinePasses) {
  Watched soon, past;
  DeadlineWatcher watcher;  // ends first: it may still be about to leave what it cancelled
  (void)*watcher.Watch(&soon.cancellation, NowNs() + 2'000'000, 2'000'000);
  EXPECT_EQ(soon.Wait(), "DEADLINE_EXCEEDED: the step did not end within its deadline of 2 ms");
  (void)*watcher.Watch(&past.cancellation, 0, 5'000'000);
  EXPECT_EQ(past.Wait(), "DEADLINE_EXCEEDED: the step did not end within its deadline of 5 ms");
}

TEST(DeadlineWatcher, DoesNotMakeASoonerDeadlineWaitForALaterOne) {
  Watched late, soon;
  DeadlineWatcher watcher;
  const uint64_t hour = uint64_t{3600} * 1'000'000'000;
  const uint64_t token = *watcher.Watch(&late.cancellation, NowNs() + hour, hour);
  (void)*watcher.Watch(&soon.cancellation, NowNs() + 1'000'000, 1'000'000);
  EXPECT_NE(soon.Wait(), "never");
  EXPECT_FALSE(late.cancellation.cancelled());
  watcher.Forget(token);
}

// Also where its thread has not come to it.
TEST(DeadlineWatcher, HasCancelledWhatItForgetsTooLate) {
  for (int i = 0; i < 200; ++i) {
    Cancellation late;
    DeadlineWatcher watcher;
    const uint64_t token = *watcher.Watch(&late, NowNs(), 1'000'000);
    watcher.Forget(token);
    ASSERT_TRUE(late.cancelled());
    EXPECT_EQ(late.reason().ToString(), "DEADLINE_EXCEEDED: the step did not end within its deadline of 1 ms");
  }
}

TEST(DeadlineWatcher, LeavesWhatItWasToldToForgetAlone) {
  Watched last;
  DeadlineWatcher watcher;
  {
    Cancellation gone;
    const uint64_t token = *watcher.Watch(&gone, NowNs() + 20'000'000, 20'000'000);
    watcher.Forget(token);
    watcher.Forget(token);
    EXPECT_FALSE(gone.cancelled());
  }
  (void)*watcher.Watch(&last.cancellation, NowNs() + 21'000'000, 21'000'000);
  EXPECT_NE(last.Wait(), "never");
}

TEST(DeadlineWatcher, ReadsTheClockThatATestMoves) {
  static std::atomic<uint64_t> now{1000};
  SetClock([]() -> uint64_t { return now.load(); });
  {
    Watched first, second;
    DeadlineWatcher watcher;
    (void)*watcher.Watch(&first.cancellation, 999, 1);
    EXPECT_NE(first.Wait(), "never");
    now.store(5000);
    (void)*watcher.Watch(&second.cancellation, 5000, 1);
    EXPECT_NE(second.Wait(), "never");
  }
  SetClock(nullptr);
}

TEST(DeadlineWatcher, EndsWithDeadlinesStillOpen) {
  Cancellation cancellation;
  {
    DeadlineWatcher watcher;
    (void)*watcher.Watch(&cancellation, UINT64_MAX / 2, 1);
  }
  EXPECT_FALSE(cancellation.cancelled());
}

}  // namespace
}  // namespace tenon::cancellation_test
