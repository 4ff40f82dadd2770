// SPDX-License-Identifier: Apache-2.0
#include "core/exec/work/work.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <future>

#include "core/base/clock.h"
#include "core/exec/threads/event_loop.h"
#include "core/exec/threads/host_threads.h"

namespace tenon::exec::work_test {
namespace {

// What a function that was scheduled is told, for one wait.
struct Call {
  static void Function(void* argument, tenon_status* status) {
    auto* call = static_cast<Call*>(argument);
    call->thread = std::this_thread::get_id();
    call->status = Status(status);
    call->came.set_value();
  }
  Code Outcome() {
    came.get_future().wait();
    return status.code();
  }
  Status status;
  std::thread::id thread;
  std::promise<void> came;
};

class Work : public ::testing::Test {
 protected:
  ~Work() override {
    session_->Close(Status(Code::kCancelled, "the session was closed"));
    while (!session_->idle()) std::this_thread::yield();
  }
  std::shared_ptr<tenon_work> Of(Cancellation* step) {
    return tenon_work::Make(session_, "vendor.plugin", "node", step);
  }

  HostThreads threads_{2};
  EventLoop loop_;  // ends first: its thread hands work to the others
  std::shared_ptr<SessionWorks> session_ = std::make_shared<SessionWorks>(&loop_, &threads_, nullptr);
  Cancellation step_;
};

static_assert(noexcept(std::declval<tenon_work&>().EndStep()), "a kernel that is done has nobody to tell");

constexpr uint64_t kHour = 3'600'000'000'000;

TEST_F(Work, ComesAfterItsTimeOnAThreadOfTheHost) {
  const auto work = Of(&step_);
  Call call;
  const uint64_t begin = NowNs();
  ASSERT_TRUE(work->Schedule(5'000'000, 0, &Call::Function, &call, nullptr).ok());
  EXPECT_EQ(call.Outcome(), Code::kOk);
  EXPECT_GE(NowNs(), begin + 5'000'000);
  EXPECT_NE(call.thread, std::this_thread::get_id());
  work->EndStep();
}

TEST_F(Work, ComesWhenTheDescriptorIsReadyOrItsTimeIsOver) {
  const auto work = Of(&step_);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  Call late, ready;
  ASSERT_TRUE(work->Await(ends[0], TENON_WORK_READABLE, 1'000'000, &Call::Function, &late, nullptr).ok());
  EXPECT_EQ(late.Outcome(), Code::kDeadlineExceeded);
  ASSERT_TRUE(work->Await(ends[0], TENON_WORK_READABLE, 0, &Call::Function, &ready, nullptr).ok());
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  EXPECT_EQ(ready.Outcome(), Code::kOk);
  work->EndStep();
  close(ends[0]);
  close(ends[1]);
}

TEST_F(Work, ACancelledStepBringsBackWhatWaits) {
  const auto work = Of(&step_);
  Call call;
  ASSERT_TRUE(work->Schedule(kHour, TENON_WORK_MAY_WAIT, &Call::Function, &call, nullptr).ok());
  step_.Cancel(Status(Code::kCancelled, "the user has had enough"));
  EXPECT_EQ(call.Outcome(), Code::kCancelled);
  EXPECT_EQ(call.status.message(), "the user has had enough");
  Call another;
  EXPECT_EQ(work->Schedule(0, 0, &Call::Function, &another, nullptr).code(), Code::kCancelled)
      << "nothing more is taken";
  work->EndStep();
}

TEST_F(Work, WhatIsForgottenDoesNotCome) {
  const auto work = Of(&step_);
  Call call;
  uint64_t token = 0;
  ASSERT_TRUE(work->Schedule(kHour, 0, &Call::Function, &call, &token).ok());
  EXPECT_TRUE(work->Forget(token));
  EXPECT_FALSE(work->Forget(token));
  EXPECT_FALSE(work->Forget(token + 1));
  EXPECT_TRUE(session_->pending() == 0);
  work->EndStep();
}

TEST_F(Work, AStepThatEndsDropsWhatItsKernelLeft) {
  Call call;
  {
    const auto work = Of(&step_);
    ASSERT_TRUE(work->Schedule(kHour, 0, &Call::Function, &call, nullptr).ok());
    testing::internal::CaptureStderr();
    work->EndStep();
    EXPECT_NE(testing::internal::GetCapturedStderr().find("'node' was done while 1 things that it had scheduled"),
              std::string::npos);
  }
  EXPECT_EQ(session_->pending(), 0);
  step_.Cancel(Status(Code::kCancelled, "later"));
  EXPECT_EQ(call.came.get_future().wait_for(std::chrono::milliseconds(5)), std::future_status::timeout);
}

TEST_F(Work, TheSessionsEndBringsBackWhatIsInTheBackground) {
  const auto work = Of(nullptr);
  work->Keep();
  Call call;
  ASSERT_TRUE(work->Schedule(kHour, 0, &Call::Function, &call, nullptr).ok());
  session_->Close(Status(Code::kCancelled, "the session was closed"));
  EXPECT_EQ(call.Outcome(), Code::kCancelled);
  EXPECT_TRUE(work->cancelled());
  EXPECT_EQ(work->Schedule(0, 0, &Call::Function, &call, nullptr).code(), Code::kCancelled);
  work->EndBackground();
}

TEST_F(Work, TheEndOfBackgroundWorkWaitsForWhatRuns) {
  const auto work = Of(nullptr);
  work->Keep();
  struct Slow {
    std::promise<void> began;
    std::atomic<bool> ended{false};
  } slow;
  const auto run = [](void* argument, tenon_status* status) {
    ReleaseStatus(status);
    auto* self = static_cast<Slow*>(argument);
    self->began.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    self->ended = true;
  };
  ASSERT_TRUE(work->Schedule(0, TENON_WORK_MAY_WAIT, run, &slow, nullptr).ok());
  slow.began.get_future().wait();
  work->EndBackground();
  EXPECT_TRUE(slow.ended);
}

TEST_F(Work, BackgroundWorkMayEndItself) {
  struct Self {
    tenon_work* work;
    std::promise<void> ended;
  } self;
  const auto work = Of(nullptr);
  work->Keep();
  self.work = work.get();
  const auto run = [](void* argument, tenon_status* status) {
    ReleaseStatus(status);
    auto* own = static_cast<Self*>(argument);
    own->work->EndBackground();
    own->ended.set_value();
  };
  ASSERT_TRUE(work->Schedule(0, 0, run, &self, nullptr).ok());
  EXPECT_EQ(self.ended.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
}

TEST_F(Work, ThereAreBounds) {
  const auto work = Of(nullptr);
  work->Keep();
  const auto drop = [](void*, tenon_status* status) { ReleaseStatus(status); };
  for (int64_t i = 0; i < SessionWorks::kMostWaiting; ++i)
    ASSERT_TRUE(work->Schedule(kHour, TENON_WORK_MAY_WAIT, drop, nullptr, nullptr).ok());
  EXPECT_EQ(work->Schedule(kHour, TENON_WORK_MAY_WAIT, drop, nullptr, nullptr).code(), Code::kResourceExhausted);
  for (int64_t i = SessionWorks::kMostWaiting; i < SessionWorks::kMostPending; ++i)
    ASSERT_TRUE(work->Schedule(kHour, 0, drop, nullptr, nullptr).ok());
  EXPECT_EQ(work->Schedule(kHour, 0, drop, nullptr, nullptr).code(), Code::kResourceExhausted);
  EXPECT_EQ(session_->pending(), SessionWorks::kMostPending);
  work->EndBackground();
  EXPECT_EQ(session_->pending(), 0);
}

TEST_F(Work, RefusesWhatItDoesNotKnow) {
  const auto work = Of(&step_);
  Call call;
  EXPECT_EQ(work->Schedule(0, 6, &Call::Function, &call, nullptr).code(), Code::kUnimplemented);
  EXPECT_EQ(work->Schedule(0, 0, nullptr, &call, nullptr).code(), Code::kInvalidArgument);
  EXPECT_EQ(work->Await(0, 0, 0, &Call::Function, &call, nullptr).code(), Code::kInvalidArgument);
  EXPECT_EQ(work->Await(-3, TENON_WORK_READABLE, 0, &Call::Function, &call, nullptr).code(), Code::kInvalidArgument);
  EXPECT_EQ(session_->pending(), 0);
  work->EndStep();
}

TEST_F(Work, ManyThreadsScheduleForgetAndCancel) {
  const auto work = Of(nullptr);
  work->Keep();
  std::atomic<int64_t> came{0};
  std::atomic<int64_t> taken{0}, forgotten{0};
  const auto count = [](void* argument, tenon_status* status) {
    ReleaseStatus(status);
    static_cast<std::atomic<int64_t>*>(argument)->fetch_add(1);
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 300; ++i) {
        uint64_t token = 0;
        if (!work->Schedule(i % 3 * 10'000, 0, count, &came, &token).ok()) return;
        ++taken;
        if (t % 2 == 0 && work->Forget(token)) ++forgotten;
      }
    });
  threads.emplace_back([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    work->Cancel(Status(Code::kCancelled, "enough"));
  });
  for (auto& thread : threads) thread.join();
  work->EndBackground();
  EXPECT_EQ(came + forgotten, taken);
  EXPECT_EQ(session_->pending(), 0);
}

}  // namespace
}  // namespace tenon::exec::work_test
