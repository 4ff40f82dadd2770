// SPDX-License-Identifier: Apache-2.0
// What device.h asks of every driver with queues, through its table. Built into the tests of each: memory, order, waits and
// signals, host calls, failures by the host. What a driver says in its own words is its own test's.
#include <cstring>
#include <future>
#include <thread>

#include "tests/device/plugin.h"

namespace tenon::device_test {
namespace {

// The code that a text begins with.
std::string Code(const std::string& text) { return text.substr(0, text.find(':')); }

constexpr char kAborted[] = "ABORTED: the step was aborted";
tenon_status* Aborted() { return Host()->status_new(TENON_ABORTED, Span("the step was aborted")); }

// What a notification told.
struct Told {
  std::vector<std::string> texts = {};
  std::promise<void> done = {};
  static void Take(void* argument, tenon_status* status) {
    auto& told = *static_cast<Told*>(argument);
    told.texts.push_back(Text(status));
    told.done.set_value();
  }
};

TEST(ConformanceQueue, WorksInOrder) {
  const Plugin plugin;
  Handle device(plugin, 0);
  tenon_queue* queue = device.Queue();
  void* a = device.Memory(1000);
  void* b = device.Memory(1000);
  EXPECT_EQ(device.Fill(queue, a, 1000, 1), "");
  EXPECT_EQ(device.Fill(queue, static_cast<char*>(a) + 10, 10, 2), "");
  EXPECT_EQ(device.CopyWithin(queue, a, b, 1000), "");
  EXPECT_EQ(device.Fill(queue, a, 1000, 3), "");
  std::vector<uint8_t> expected(1000, 1);
  std::fill_n(expected.begin() + 10, 10, 2);
  EXPECT_EQ(device.Download<uint8_t>(queue, b, 1000), expected);
  EXPECT_EQ(device.Download<uint8_t>(queue, a, 1000), std::vector<uint8_t>(1000, 3));
}

TEST(ConformanceQueue, RepeatsPatternsOfEverySize) {
  const Plugin plugin;
  Handle device(plugin, 0);
  tenon_queue* queue = device.Queue();
  uint8_t pattern[16];
  for (uint8_t i = 0; i < 16; ++i) pattern[i] = static_cast<uint8_t>(i + 1);
  const Submission plain;
  char* data = static_cast<char*>(device.Memory(100));
  for (uint64_t size : {1u, 2u, 4u, 8u, 16u}) {
    const tenon_fill_args args = {TENON_HEAD(tenon_fill_args), data, 100, pattern, size};
    EXPECT_EQ(Text(plugin.driver->queue_fill(queue, &args, plain.get())), "");
    const auto got = device.Download<uint8_t>(queue, data, 100);
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], pattern[i % size]) << size;
  }
  const tenon_fill_args args = {TENON_HEAD(tenon_fill_args), data, 9, pattern, 3};
  EXPECT_EQ(Text(plugin.driver->queue_fill(queue, &args, plain.get())),
            "INVALID_ARGUMENT: a pattern of 3 bytes; it may have 1, 2, 4, 8 or 16");
}

TEST(ConformanceQueue, RefusesSubmissionsThatMakeNoSense) {
  const Plugin plugin, second;
  Handle device(plugin, 0), foreign(second, 0);
  tenon_queue* queue = device.Queue();
  EXPECT_EQ(device.Barrier(queue, {{{nullptr, 1}}}), "INVALID_ARGUMENT: wait 0 has no semaphore");
  EXPECT_EQ(device.Barrier(queue, {{{foreign.Semaphore(), 1}}}), "INVALID_ARGUMENT: wait 0 is for a semaphore of another driver");
  EXPECT_EQ(device.Barrier(queue, {{}, nullptr, 3}), "INVALID_ARGUMENT: a signal of 3 without a timeline");
  tenon_submission unknown = {TENON_HEAD(tenon_submission), nullptr, 0, nullptr, 0, {}};
  unknown.must_understand = 1;
  EXPECT_EQ(Text(plugin.driver->queue_barrier(queue, &unknown)),
            "UNIMPLEMENTED: a submission with a feature that this plugin does not know");
}

TEST(ConformanceQueue, WaitsForWhatAnotherQueueSignals) {
  const Plugin plugin;
  Handle device(plugin, 0);
  tenon_queue* first = device.Queue();
  tenon_queue* second = device.Queue();
  tenon_semaphore* gate = device.Semaphore();
  tenon_semaphore* filled = device.Semaphore();
  void* data = device.Memory(64);
  std::vector<uint8_t> host(64, 0);
  EXPECT_EQ(device.Fill(first, data, 64, 1), "");
  EXPECT_EQ(device.Finish(first), "");
  EXPECT_EQ(device.Copy(first, data, device.device, host.data(), nullptr, 64, {{{filled, 5}}}), "");
  EXPECT_EQ(device.Fill(second, data, 64, 2, {{{gate, 1}}, filled, 5}), "");
  EXPECT_EQ(Text(plugin.driver->semaphore_signal(gate, 1)), "");
  EXPECT_EQ(device.Finish(first), "");
  EXPECT_EQ(host, std::vector<uint8_t>(64, 2));
  uint64_t value = 0;
  EXPECT_EQ(Text(plugin.driver->semaphore_query(filled, &value)), "");
  EXPECT_EQ(value, 5u);
}

TEST(ConformanceQueue, CallsTheHostWhenItGetsThereAndThenSignals) {
  const Plugin plugin;
  Handle device(plugin, 0);
  tenon_queue* queue = device.Queue();
  std::vector<uint8_t> host(8, 0);
  struct Seen {
    const Plugin* plugin;
    std::vector<uint8_t>* host;
    tenon_semaphore* after;
    std::vector<uint8_t> at_call = {};
    std::string status = "not called";
    std::thread::id thread = {};
    uint64_t value = 9;
  } seen{&plugin, &host, device.Semaphore()};
  void* data = device.Memory(8);
  EXPECT_EQ(device.Fill(queue, data, 8, 4), "");
  EXPECT_EQ(device.Copy(queue, data, device.device, host.data(), nullptr, 8), "");
  const Submission submission = {{}, seen.after, 1};
  EXPECT_EQ(Text(plugin.driver->queue_host_call(
                queue,
                [](void* argument, tenon_status* status) {
                  Seen& s = *static_cast<Seen*>(argument);
                  s.status = Text(status);
                  s.at_call = *s.host;
                  s.thread = std::this_thread::get_id();
                  EXPECT_EQ(Text(s.plugin->driver->semaphore_query(s.after, &s.value)), "");
                },
                &seen, submission.get())),
            "");
  EXPECT_EQ(device.Wait(seen.after, 1), "");
  EXPECT_EQ(seen.status, "");
  EXPECT_EQ(seen.at_call, std::vector<uint8_t>(8, 4));
  EXPECT_NE(seen.thread, std::this_thread::get_id());
  EXPECT_EQ(seen.value, 0u);
}

TEST(ConformanceQueue, MayBeDestroyedFromItsOwnHostCall) {
  const Plugin plugin;
  Handle device(plugin, 0);
  struct Argument {
    const tenon_device_driver* driver;
    tenon_queue* queue = nullptr;
    std::promise<void> done = {};
  } argument{plugin.driver};
  EXPECT_EQ(Text(plugin.driver->queue_create(device.device, 0, &argument.queue)), "");
  const Submission plain;
  EXPECT_EQ(Text(plugin.driver->queue_host_call(
                argument.queue,
                [](void* a, tenon_status*) {
                  auto& self = *static_cast<Argument*>(a);
                  self.driver->queue_destroy(self.queue);
                  self.done.set_value();
                },
                &argument, plain.get())),
            "");
  argument.done.get_future().wait();
}

TEST(ConformanceQueue, TakesItemsAgainThatAreDone) {
  const Plugin plugin;
  Handle device(plugin, 0);
  tenon_queue* queue = device.Queue();
  tenon_semaphore* s = device.Semaphore();
  std::vector<uint32_t> data(300, 0);
  auto* memory = static_cast<char*>(device.Memory(1200));
  for (uint64_t round = 0; round < 50; ++round) {
    for (uint32_t i = 0; i < 300; ++i) {
      data[i] = static_cast<uint32_t>(round) * 1000 + i;
      EXPECT_EQ(device.Copy(queue, &data[i], nullptr, memory + i * 4, device.device, 4, {{}, s, round * 300 + i + 1}), "");
    }
    EXPECT_EQ(device.Wait(s, round * 300 + 300), "");
  }
  EXPECT_EQ(device.Download<uint32_t>(queue, memory, 300), data);
}

TEST(ConformanceDevice, MayBeClosedBeforeTheirHandlesAreGivenBack) {
  const Plugin plugin;
  Handle device(plugin, 0);
  tenon_queue* queue = nullptr;
  tenon_semaphore* semaphore = nullptr;
  EXPECT_EQ(Text(plugin.driver->queue_create(device.device, 0, &queue)), "");
  EXPECT_EQ(Text(plugin.driver->semaphore_create(device.device, 0, &semaphore)), "");
  EXPECT_EQ(device.Barrier(queue, {{{semaphore, 9}}}), "");
  device.Close();
  const Submission plain;
  EXPECT_EQ(Code(Text(plugin.driver->queue_barrier(queue, plain.get()))), "FAILED_PRECONDITION");
  plugin.driver->queue_destroy(queue);
  plugin.driver->semaphore_destroy(semaphore);
}

TEST(ConformanceSemaphore, IsWaitedForUntilTheDeadlineAndNoLonger) {
  const Plugin plugin;
  Handle device(plugin, 0);
  tenon_semaphore* semaphore = device.Semaphore(2);
  EXPECT_EQ(device.Wait(semaphore, 2, 0), "");
  EXPECT_EQ(Code(device.Wait(semaphore, 5, 0)), "DEADLINE_EXCEEDED");
  EXPECT_EQ(Code(device.Wait(semaphore, 5, Soon(std::chrono::milliseconds(2)))), "DEADLINE_EXCEEDED");
}

TEST(ConformanceSemaphore, OnlyCountsUp) {
  const Plugin plugin;
  Handle device(plugin, 0);
  tenon_semaphore* semaphore = device.Semaphore(2);
  EXPECT_EQ(Text(plugin.driver->semaphore_signal(semaphore, 2)),
            "INVALID_ARGUMENT: signal of 2 on a semaphore that has reached 2");
  EXPECT_EQ(Text(plugin.driver->semaphore_signal(semaphore, 7)), "");
  EXPECT_EQ(device.Wait(semaphore, 6), "");
}

TEST(ConformanceSemaphore, WakesSeveralThreads) {
  const Plugin plugin;
  Handle device(plugin, 0);
  tenon_semaphore* semaphore = device.Semaphore();
  std::vector<std::future<std::string>> waiting;
  for (uint64_t value : {1u, 2u, 3u}) {
    waiting.push_back(std::async(std::launch::async, [&, value] { return device.Wait(semaphore, value, value == 3 ? UINT64_MAX : Soon()); }));
  }
  for (uint64_t value : {1u, 2u, 3u}) EXPECT_EQ(Text(plugin.driver->semaphore_signal(semaphore, value)), "");
  for (auto& one : waiting) EXPECT_EQ(one.get(), "");
}

TEST(ConformanceSemaphore, ThatTheHostFailsKeepsWhatItReached) {
  const Plugin plugin;
  Handle device(plugin, 0);
  tenon_semaphore* s = device.Semaphore(3);
  plugin.driver->semaphore_fail(s, Aborted());
  EXPECT_EQ(device.Wait(s, 3), "");
  EXPECT_EQ(device.Wait(s, 4), kAborted);
  EXPECT_EQ(Text(plugin.driver->semaphore_signal(s, 4)), kAborted);
  plugin.driver->semaphore_fail(s, Host()->status_new(TENON_INTERNAL, Span("another reason")));  // the first one stays
  uint64_t value = 0;
  EXPECT_EQ(Text(plugin.driver->semaphore_query(s, &value)), kAborted);
  EXPECT_EQ(value, 3u);
}

TEST(ConformanceSemaphore, TellsWhoAskedWhenAPointIsReachedOrCannotBe) {
  const Plugin plugin;
  Handle device(plugin, 0);
  tenon_queue* queue = device.Queue();
  tenon_semaphore* s = device.Semaphore(1);
  Told before, by_queue, by_host, failed, late;
  EXPECT_EQ(Text(plugin.driver->semaphore_notify(s, 1, Told::Take, &before)), "");
  before.done.get_future().wait();  // perhaps at once
  EXPECT_EQ(Text(plugin.driver->semaphore_notify(s, 2, Told::Take, &by_queue)), "");
  EXPECT_EQ(Text(plugin.driver->semaphore_notify(s, 3, Told::Take, &by_host)), "");
  EXPECT_EQ(Text(plugin.driver->semaphore_notify(s, 4, Told::Take, &failed)), "");
  EXPECT_EQ(device.Barrier(queue, {{}, s, 2}), "");
  by_queue.done.get_future().wait();
  EXPECT_TRUE(by_host.texts.empty());
  EXPECT_EQ(Text(plugin.driver->semaphore_signal(s, 3)), "");
  by_host.done.get_future().wait();
  plugin.driver->semaphore_fail(s, Aborted());
  EXPECT_EQ(Text(plugin.driver->semaphore_notify(s, 9, Told::Take, &late)), "");
  for (Told* told : {&failed, &late}) told->done.get_future().wait();
  for (const Told* told : {&before, &by_queue, &by_host}) EXPECT_EQ(told->texts, std::vector<std::string>{""});
  for (const Told* told : {&failed, &late}) EXPECT_EQ(told->texts, std::vector<std::string>{kAborted});
}

TEST(ConformanceMemory, IsAlignedAsAskedFor) {
  const Plugin plugin;
  Handle device(plugin, 0);
  device.Memory(100);
  for (uint64_t alignment : {1u, 64u, 4096u, 2097152u}) {
    void* data = nullptr;
    EXPECT_EQ(Text(plugin.driver->allocate(device.device, 0, 100, alignment, nullptr, &data)), "");
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % alignment, 0u);
  }
  void* data = nullptr;
  EXPECT_EQ(Text(plugin.driver->allocate(device.device, 0, 100, 3, nullptr, &data)),
            "INVALID_ARGUMENT: alignment 3 is not a power of two up to 2097152");
}

TEST(ConformanceQueue, CopiesBetweenDevicesAndThroughStaging) {
  const Plugin plugin{{"devices", "2"}};
  Handle one(plugin, 0), two(plugin, 1);
  tenon_queue* queue = one.Queue();
  void* here = one.Memory(256);
  void* there = two.Memory(256);
  void* staging = one.Memory(256, 1);
  std::memset(staging, 9, 256);
  EXPECT_EQ(one.CopyWithin(queue, staging, here, 256), "");
  EXPECT_EQ(one.Copy(queue, here, one.device, there, two.device, 256), "");
  EXPECT_EQ(one.Finish(queue), "");
  EXPECT_EQ(two.Download<uint8_t>(two.Queue(), there, 256), std::vector<uint8_t>(256, 9));
}

}  // namespace
}  // namespace tenon::device_test
