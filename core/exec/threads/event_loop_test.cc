// SPDX-License-Identifier: Apache-2.0
#include "core/exec/threads/event_loop.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <future>

#include "core/base/clock.h"

namespace tenon::exec::event_loop_test {
namespace {

struct Pipe {
  Pipe() { EXPECT_EQ(pipe(ends), 0); }
  ~Pipe() {
    close(ends[0]);
    close(ends[1]);
  }
  int ends[2];
};

TEST(EventLoop, CallsInTheOrderOfTheirTimes) {
  EventLoop loop;
  std::promise<std::string> done;
  std::string order;
  const uint64_t now = NowNs();
  ASSERT_TRUE(loop.At(now + 20'000'000, [&](bool) { done.set_value(order + "b"); }).ok());
  ASSERT_TRUE(loop.At(now + 10'000'000, [&](bool) { order += "a"; }).ok());
  EXPECT_EQ(done.get_future().get(), "ab");
  EXPECT_GE(NowNs(), now + 20'000'000);
}

TEST(EventLoop, CallsWhenADescriptorIsReady) {
  EventLoop loop;
  const Pipe pipe;
  std::promise<bool> done;
  ASSERT_TRUE(
      loop.WhenReady(pipe.ends[0], POLLIN, EventLoop::kNever, [&](bool timed_out) { done.set_value(timed_out); }).ok());
  ASSERT_EQ(write(pipe.ends[1], "x", 1), 1);
  EXPECT_FALSE(done.get_future().get());
}

TEST(EventLoop, SaysThatTheTimeIsOver) {
  EventLoop loop;
  const Pipe pipe;
  std::promise<bool> done;
  ASSERT_TRUE(
      loop.WhenReady(pipe.ends[0], POLLIN, NowNs() + 1'000'000, [&](bool timed_out) { done.set_value(timed_out); })
          .ok());
  EXPECT_TRUE(done.get_future().get());
}

TEST(EventLoop, WhatIsForgottenIsNotCalled) {
  EventLoop loop;
  const Pipe pipe;
  std::atomic<int> called{0};
  const auto never = loop.WhenReady(pipe.ends[0], POLLIN, EventLoop::kNever, [&](bool) { ++called; });
  ASSERT_TRUE(never.ok());
  const auto later = loop.At(NowNs() + 1'000'000, [&](bool) { ++called; });
  ASSERT_TRUE(later.ok());
  EXPECT_TRUE(loop.Forget(*never));
  const bool was_in_time = loop.Forget(*later);
  EXPECT_FALSE(loop.Forget(*never));
  ASSERT_EQ(write(pipe.ends[1], "x", 1), 1);
  std::promise<void> done;
  ASSERT_TRUE(loop.At(NowNs() + 5'000'000, [&](bool) { done.set_value(); }).ok());
  done.get_future().wait();
  EXPECT_EQ(called.load(), was_in_time ? 0 : 1);
}

TEST(EventLoop, RefusesWhatIsNoDescriptor) {
  EventLoop loop;
  EXPECT_EQ(loop.WhenReady(-1, POLLIN, EventLoop::kNever, [](bool) {}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(loop.WhenReady(1'000'000, POLLIN, EventLoop::kNever, [](bool) {}).status().code(), Code::kInvalidArgument);
}

TEST(EventLoop, EndsWithWhatIsStillWaitedFor) {
  const Pipe pipe;
  std::atomic<int> called{0};
  {
    EventLoop loop;
    ASSERT_TRUE(loop.WhenReady(pipe.ends[0], POLLIN, EventLoop::kNever, [&](bool) { ++called; }).ok());
    ASSERT_TRUE(loop.At(NowNs() + 3'600'000'000'000, [&](bool) { ++called; }).ok());
  }
  EXPECT_EQ(called.load(), 0);
}

}  // namespace
}  // namespace tenon::exec::event_loop_test
