// SPDX-License-Identifier: Apache-2.0
#include "core/exec/device/async_calls.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/base/log.h"
#include "tenon/abi.h"

namespace tenon::exec::async_calls_test {
namespace {

class AsyncCallsTest : public testing::Test {
 protected:
  AsyncCallsTest() {
    SetLogFunction([](void* lines, uint32_t,
                      std::string_view text) { static_cast<std::vector<std::string>*>(lines)->emplace_back(text); },
                   &lines_);
  }
  ~AsyncCallsTest() override { SetLogFunction(nullptr, nullptr); }
  void* Open(void* waits) {
    auto number = calls_.Open(waits, {plugin_, "run_async() of node", node_});
    EXPECT_TRUE(number.ok());
    return number.ok() ? *number : nullptr;
  }
  AsyncCalls calls_;
  std::vector<std::string> lines_;
  const std::string plugin_ = "p", node_ = "n";
  int waits_ = 0;
};

TEST_F(AsyncCallsTest, GivesBackWhoWaitsOnce) {
  void* const number = Open(&waits_);
  EXPECT_EQ(calls_.Close(number), &waits_);
  EXPECT_TRUE(lines_.empty());
  EXPECT_EQ(calls_.Close(number), nullptr);
  EXPECT_EQ(lines_, std::vector<std::string>{
                        "plugin 'p': its run_async() of node 'n' called done twice; this is of no account"});
}

TEST_F(AsyncCallsTest, TellsWhoComesWhenNobodyWaits) {
  void* const number = Open(&waits_);
  EXPECT_TRUE(calls_.GiveUp(number));
  EXPECT_EQ(calls_.Close(number), nullptr);
  EXPECT_EQ(lines_, std::vector<std::string>{"plugin 'p': its run_async() of node 'n' called done when nobody waited "
                                             "for it any more; this is of no account"});
  void* const other = Open(&waits_);
  EXPECT_EQ(calls_.Close(other), &waits_);
  EXPECT_FALSE(calls_.GiveUp(other)) << "it was closed";
}

TEST_F(AsyncCallsTest, TakesNoNumberForAnotherThatHasItsPlace) {
  void* const first = Open(&waits_);
  EXPECT_EQ(calls_.Close(first), &waits_);
  void* const second = Open(&waits_);
  EXPECT_NE(first, second);
  EXPECT_EQ(calls_.Close(first), nullptr) << "its place is another's now";
  EXPECT_EQ(calls_.Close(second), &waits_);
  for (const uint64_t never : {uint64_t{0}, uint64_t{77}, ~uint64_t{0}})
    EXPECT_EQ(calls_.Close(reinterpret_cast<void*>(never)), nullptr);
}

TEST_F(AsyncCallsTest, HasPlaceForManyAtOnceAndUsesThemAgain) {
  for (int turn = 0; turn < 3; ++turn) {
    std::set<void*> numbers;
    for (int i = 0; i < 1000; ++i) numbers.insert(Open(&waits_));
    EXPECT_EQ(numbers.size(), 1000u);
    for (void* number : numbers) EXPECT_EQ(calls_.Close(number), &waits_);
  }
  // Two threads, none of which gets the other's.
  std::vector<std::thread> threads;
  for (int which = 0; which < 2; ++which)
    threads.emplace_back([this] {
      int own = 0;
      for (int i = 0; i < 2000; ++i) EXPECT_EQ(calls_.Close(Open(&own)), &own);
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tenon::exec::async_calls_test
