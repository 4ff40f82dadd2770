// SPDX-License-Identifier: Apache-2.0
// A system that gives no more threads.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <future>

#include "core/base/cancellation.h"
#include "core/base/clock.h"
#include "core/exec/threads/host_threads.h"

namespace {

std::atomic<int> threads_left{1 << 30};

}  // namespace

// Of this program: what the C++ library calls.
extern "C" __attribute__((visibility("default"))) int pthread_create(pthread_t* thread,
                                                                     const pthread_attr_t* attributes,
                                                                     void* (*start)(void*), void* argument) {
  static const auto real = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  if (threads_left.fetch_sub(1) <= 0) {
    threads_left.fetch_add(1);
    return EAGAIN;
  }
  return real(thread, attributes, start, argument);
}

namespace tenon::exec::no_threads_test {
namespace {

struct Few {
  explicit Few(int count) { threads_left = count; }
  ~Few() { threads_left = 1 << 30; }
};

TEST(NoThreads, StepsHaveAsManyAsThereAre) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  const int asked = std::min(4, CPU_COUNT(&allowed)) - 1;  // more helpers than cores are never asked for
  for (const int there : {0, 1, 2}) {
    const Few few(there);
    HostThreads threads(4);
    EXPECT_EQ(threads.threads(), there < asked ? static_cast<uint32_t>(there) + 1 : 4u);
    std::atomic<int64_t> sum{0};
    threads.Run(1000, 1e5, [](void* argument, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) static_cast<std::atomic<int64_t>*>(argument)->fetch_add(i);
    }, &sum);
    EXPECT_EQ(sum.load(), 999 * 1000 / 2);
  }
}

TEST(NoThreads, ATaskThatNobodyCanRunIsRefused) {
  HostThreads threads(1);
  const Few few(0);
  std::atomic<bool> ran{false};
  for (const bool waits : {false, true}) {
    const Status status =
        waits ? threads.ScheduleWaiting([&ran] { ran = true; }) : threads.Schedule([&ran] { ran = true; });
    EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.ToString();
    EXPECT_FALSE(ran.load());
  }
}

TEST(NoThreads, ATaskThatComputesWaitsForAThreadThatThereIs) {
  HostThreads threads(1);
  std::promise<void> open, second;
  const auto opened = open.get_future().share();
  ASSERT_TRUE(threads.Schedule([opened] { opened.wait(); }).ok());
  const Few few(0);
  EXPECT_TRUE(threads.Schedule([&second] { second.set_value(); }).ok());
  EXPECT_EQ(threads.ScheduleWaiting([] {}).code(), Code::kResourceExhausted) << "it may be what the other waits for";
  open.set_value();
  second.get_future().wait();
}

TEST(NoThreads, ATaskThatThrowsEndsNoProcess) {
  HostThreads threads(1);
  ASSERT_TRUE(threads.Schedule([] { throw std::bad_alloc(); }).ok());
  ASSERT_TRUE(threads.Schedule([] { throw 7; }).ok());
  std::promise<void> after;
  ASSERT_TRUE(threads.Schedule([&after] { after.set_value(); }).ok());
  after.get_future().wait();
}

TEST(NoThreads, ADeadlineThatNobodyWatchesIsRefused) {
  DeadlineWatcher watcher;
  Cancellation cancellation;
  const Few few(0);
  const auto token = watcher.Watch(&cancellation, NowNs() + 1'000'000, 1'000'000);
  EXPECT_EQ(token.status().code(), Code::kResourceExhausted) << token.status().ToString();
}

}  // namespace
}  // namespace tenon::exec::no_threads_test
