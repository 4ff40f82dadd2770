// SPDX-License-Identifier: Apache-2.0
#include "host_calls.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace tenon::gpu {
namespace {

TEST(HostCalls, AreMadeOnceAndOfKnownNumbersAlone) {
  HostCalls calls;
  int made = 0;
  const uint64_t call = calls.Add([&] { ++made; });
  HostCalls::Run(0);
  HostCalls::Run(call + 1);
  EXPECT_EQ(made, 0);
  HostCalls::Run(call);
  HostCalls::Run(call);
  EXPECT_EQ(made, 1);
}

TEST(HostCalls, ThatADriverRefusedOrNeverMakesGoWithTheirOwner) {
  const auto state = std::make_shared<int>(0);
  uint64_t left = 0, of_other = 0;
  HostCalls other;
  {
    HostCalls calls;
    calls.Drop(calls.Add([state] { ++*state; }));
    EXPECT_EQ(state.use_count(), 1);
    left = calls.Add([state] { ++*state; });
    of_other = other.Add([state] { ++*state; });
    EXPECT_EQ(state.use_count(), 3);
  }
  EXPECT_EQ(state.use_count(), 2);
  HostCalls::Run(left);  // a driver that is late
  EXPECT_EQ(*state, 0);
  HostCalls::Run(of_other);
  EXPECT_EQ(*state, 1);
}

TEST(HostCalls, AreOverWhenTheirOwnerIsClosed) {
  HostCalls calls;
  std::atomic<bool> has_begun{false}, may_end{false}, has_ended{false}, is_closed{false};
  const uint64_t call = calls.Add([&] {
    has_begun = true;
    while (!may_end) std::this_thread::yield();
    EXPECT_FALSE(is_closed);
    has_ended = true;
  });
  const uint64_t next = calls.Add([] { ADD_FAILURE() << "this owner is closed"; });
  std::thread driver([&] { HostCalls::Run(call); });
  while (!has_begun) std::this_thread::yield();
  std::thread closes([&] {
    calls.Close();
    is_closed = true;
    EXPECT_TRUE(has_ended);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  may_end = true;
  closes.join();
  HostCalls::Run(next);
  driver.join();
}

}  // namespace
}  // namespace tenon::gpu
