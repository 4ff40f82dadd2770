// SPDX-License-Identifier: Apache-2.0
// What device.h asks of every driver with queues, as cases over its built library: memory, order, waits and signals,
// host calls, failures by the host. What a driver says in its own words is its own test's.
//
//   for (const SuiteCase<DeviceSubject>& one : DeviceCases()) {
//     const auto failures = FailuresOf([&] { one.run({library, {{"devices", "1"}}, {{"devices", "2"}}}); });
//   }
#ifndef TENON_TESTING_DEVICE_SUITE_H_
#define TENON_TESTING_DEVICE_SUITE_H_

#include <cstring>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "tenon/testing/device.h"

namespace tenon::testing {

// The library of a driver, and the options with which it has at least one and at least two devices.
struct DeviceSubject {
  const Library& library;
  Settings one = {}, two = {};
};

namespace device_suite {

inline constexpr char kAborted[] = "ABORTED: the step was aborted";
inline tenon_status* Aborted() { return NewStatus(TENON_ABORTED, "the step was aborted"); }

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

inline void QueueWorksInOrder(const DeviceSubject& subject) {
  const Loaded plugin(subject.library, subject.one);
  Device device(plugin, 0);
  tenon_queue* queue = device.Queue();
  void* a = device.Memory(1000);
  void* b = device.Memory(1000);
  ExpectEq(device.Fill(queue, a, 1000, 1), "");
  ExpectEq(device.Fill(queue, static_cast<char*>(a) + 10, 10, 2), "");
  ExpectEq(device.CopyWithin(queue, a, b, 1000), "");
  ExpectEq(device.Fill(queue, a, 1000, 3), "");
  std::vector<uint8_t> expected(1000, 1);
  std::fill_n(expected.begin() + 10, 10, 2);
  ExpectEq(device.Download<uint8_t>(queue, b, 1000), expected);
  ExpectEq(device.Download<uint8_t>(queue, a, 1000), std::vector<uint8_t>(1000, 3));
}

inline void QueueRepeatsPatternsOfEverySize(const DeviceSubject& subject) {
  const Loaded plugin(subject.library, subject.one);
  Device device(plugin, 0);
  tenon_queue* queue = device.Queue();
  uint8_t pattern[16];
  for (uint8_t i = 0; i < 16; ++i) pattern[i] = static_cast<uint8_t>(i + 1);
  const Submission plain;
  char* data = static_cast<char*>(device.Memory(100));
  for (uint64_t size : {1u, 2u, 4u, 8u, 16u}) {
    const tenon_fill_args args = {TENON_HEAD(tenon_fill_args), data, 100, pattern, size};
    ExpectEq(Text(device.driver->queue_fill(queue, &args, plain.get())), "");
    const auto got = device.Download<uint8_t>(queue, data, 100);
    for (size_t i = 0; i < got.size(); ++i)
      ExpectEq(got[i], pattern[i % size], "a pattern of " + std::to_string(size) + " bytes");
  }
  const tenon_fill_args args = {TENON_HEAD(tenon_fill_args), data, 9, pattern, 3};
  ExpectEq(Text(device.driver->queue_fill(queue, &args, plain.get())),
            "INVALID_ARGUMENT: a pattern of 3 bytes; it may have 1, 2, 4, 8 or 16");
}

inline void QueueRefusesSubmissionsThatMakeNoSense(const DeviceSubject& subject) {
  const Loaded plugin(subject.library, subject.one), second(subject.library, subject.one);
  Device device(plugin, 0), foreign(second, 0);
  tenon_queue* queue = device.Queue();
  ExpectEq(device.Barrier(queue, {{{nullptr, 1}}}), "INVALID_ARGUMENT: wait 0 has no semaphore");
  ExpectEq(device.Barrier(queue, {{{foreign.Semaphore(), 1}}}),
           "INVALID_ARGUMENT: wait 0 is for a semaphore of another driver");
  ExpectEq(device.Barrier(queue, {{}, nullptr, 3}), "INVALID_ARGUMENT: a signal of 3 without a timeline");
  tenon_submission unknown = {TENON_HEAD(tenon_submission), nullptr, 0, nullptr, 0, {}};
  unknown.must_understand = 1;
  ExpectEq(Text(device.driver->queue_barrier(queue, &unknown)),
            "UNIMPLEMENTED: a submission with a feature that this plugin does not know");
}

inline void QueueWaitsForWhatAnotherQueueSignals(const DeviceSubject& subject) {
  const Loaded plugin(subject.library, subject.one);
  Device device(plugin, 0);
  tenon_queue* first = device.Queue();
  tenon_queue* second = device.Queue();
  tenon_semaphore* gate = device.Semaphore();
  tenon_semaphore* filled = device.Semaphore();
  void* data = device.Memory(64);
  std::vector<uint8_t> host(64, 0);
  ExpectEq(device.Fill(first, data, 64, 1), "");
  ExpectEq(device.Finish(first), "");
  ExpectEq(device.Copy(first, data, device.device, host.data(), nullptr, 64, {{{filled, 5}}}), "");
  ExpectEq(device.Fill(second, data, 64, 2, {{{gate, 1}}, filled, 5}), "");
  ExpectEq(Text(device.driver->semaphore_signal(gate, 1)), "");
  ExpectEq(device.Finish(first), "");
  ExpectEq(host, std::vector<uint8_t>(64, 2));
  uint64_t value = 0;
  ExpectEq(Text(device.driver->semaphore_query(filled, &value)), "");
  ExpectEq(value, 5u);
}

inline void QueueCallsTheHostWhenItGetsThereAndThenSignals(const DeviceSubject& subject) {
  const Loaded plugin(subject.library, subject.one);
  Device device(plugin, 0);
  tenon_queue* queue = device.Queue();
  std::vector<uint8_t> host(8, 0);
  struct Seen {
    const tenon_device_driver* driver;
    std::vector<uint8_t>* host;
    tenon_semaphore* after;
    std::vector<uint8_t> at_call = {};
    std::string status = "not called";
    std::thread::id thread = {};
    uint64_t value = 9;
  } seen{device.driver, &host, device.Semaphore()};
  void* data = device.Memory(8);
  ExpectEq(device.Fill(queue, data, 8, 4), "");
  ExpectEq(device.Copy(queue, data, device.device, host.data(), nullptr, 8), "");
  const Submission submission = {{}, seen.after, 1};
  ExpectEq(Text(device.driver->queue_host_call(
                queue,
                [](void* argument, tenon_status* status) {
                  Seen& s = *static_cast<Seen*>(argument);
                  s.status = Text(status);
                  s.at_call = *s.host;
                  s.thread = std::this_thread::get_id();
                  ExpectEq(Text(s.driver->semaphore_query(s.after, &s.value)), "");
                },
                &seen, submission.get())),
            "");
  ExpectEq(device.Wait(seen.after, 1), "");
  ExpectEq(seen.status, "");
  ExpectEq(seen.at_call, std::vector<uint8_t>(8, 4));
  ExpectNe(seen.thread, std::this_thread::get_id());
  ExpectEq(seen.value, 0u);
}

inline void QueueMayBeDestroyedFromItsOwnHostCall(const DeviceSubject& subject) {
  const Loaded plugin(subject.library, subject.one);
  Device device(plugin, 0);
  struct Argument {
    const tenon_device_driver* driver;
    tenon_queue* queue = nullptr;
    std::promise<void> done = {};
  } argument{device.driver};
  ExpectEq(Text(device.driver->queue_create(device.device, 0, &argument.queue)), "");
  const Submission plain;
  ExpectEq(Text(device.driver->queue_host_call(
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

inline void QueueTakesItemsAgainThatAreDone(const DeviceSubject& subject) {
  const Loaded plugin(subject.library, subject.one);
  Device device(plugin, 0);
  tenon_queue* queue = device.Queue();
  tenon_semaphore* s = device.Semaphore();
  std::vector<uint32_t> data(300, 0);
  auto* memory = static_cast<char*>(device.Memory(1200));
  for (uint64_t round = 0; round < 50; ++round) {
    for (uint32_t i = 0; i < 300; ++i) {
      data[i] = static_cast<uint32_t>(round) * 1000 + i;
      ExpectEq(device.Copy(queue, &data[i], nullptr, memory + i * 4, device.device, 4, {{}, s, round * 300 + i + 1}),
               "");
    }
    ExpectEq(device.Wait(s, round * 300 + 300), "");
  }
  ExpectEq(device.Download<uint32_t>(queue, memory, 300), data);
}

inline void DeviceMayBeClosedBeforeTheirHandlesAreGivenBack(const DeviceSubject& subject) {
  const Loaded plugin(subject.library, subject.one);
  Device device(plugin, 0);
  tenon_queue* queue = nullptr;
  tenon_semaphore* semaphore = nullptr;
  ExpectEq(Text(device.driver->queue_create(device.device, 0, &queue)), "");
  ExpectEq(Text(device.driver->semaphore_create(device.device, 0, &semaphore)), "");
  ExpectEq(device.Barrier(queue, {{{semaphore, 9}}}), "");
  device.Close();
  const Submission plain;
  ExpectEq(CodeOf(Text(device.driver->queue_barrier(queue, plain.get()))), "FAILED_PRECONDITION");
  device.driver->queue_destroy(queue);
  device.driver->semaphore_destroy(semaphore);
}

inline void SemaphoreIsWaitedForUntilTheDeadlineAndNoLonger(const DeviceSubject& subject) {
  const Loaded plugin(subject.library, subject.one);
  Device device(plugin, 0);
  tenon_semaphore* semaphore = device.Semaphore(2);
  ExpectEq(device.Wait(semaphore, 2, 0), "");
  ExpectEq(CodeOf(device.Wait(semaphore, 5, 0)), "DEADLINE_EXCEEDED");
  ExpectEq(CodeOf(device.Wait(semaphore, 5, After(std::chrono::milliseconds(2)))), "DEADLINE_EXCEEDED");
}

inline void SemaphoreOnlyCountsUp(const DeviceSubject& subject) {
  const Loaded plugin(subject.library, subject.one);
  Device device(plugin, 0);
  tenon_semaphore* semaphore = device.Semaphore(2);
  ExpectEq(Text(device.driver->semaphore_signal(semaphore, 2)),
            "INVALID_ARGUMENT: signal of 2 on a semaphore that has reached 2");
  ExpectEq(Text(device.driver->semaphore_signal(semaphore, 7)), "");
  ExpectEq(device.Wait(semaphore, 6), "");
}

inline void SemaphoreWakesSeveralThreads(const DeviceSubject& subject) {
  const Loaded plugin(subject.library, subject.one);
  Device device(plugin, 0);
  tenon_semaphore* semaphore = device.Semaphore();
  std::vector<std::future<std::string>> waiting;
  for (uint64_t value : {1u, 2u, 3u}) {
    waiting.push_back(std::async(std::launch::async, [&, value] {
      return device.Wait(semaphore, value, value == 3 ? UINT64_MAX : After(kPatience));
    }));
  }
  for (uint64_t value : {1u, 2u, 3u}) ExpectEq(Text(device.driver->semaphore_signal(semaphore, value)), "");
  for (auto& one : waiting) ExpectEq(one.get(), "");
}

inline void SemaphoreThatTheHostFailsKeepsWhatItReached(const DeviceSubject& subject) {
  const Loaded plugin(subject.library, subject.one);
  Device device(plugin, 0);
  tenon_semaphore* s = device.Semaphore(3);
  device.driver->semaphore_fail(s, Aborted());
  ExpectEq(device.Wait(s, 3), "");
  ExpectEq(device.Wait(s, 4), kAborted);
  ExpectEq(Text(device.driver->semaphore_signal(s, 4)), kAborted);
  device.driver->semaphore_fail(s, NewStatus(TENON_INTERNAL, "another reason"));  // the first one stays
  uint64_t value = 0;
  ExpectEq(Text(device.driver->semaphore_query(s, &value)), kAborted);
  ExpectEq(value, 3u);
}

inline void SemaphoreTellsWhoAskedWhenAPointIsReachedOrCannotBe(const DeviceSubject& subject) {
  const Loaded plugin(subject.library, subject.one);
  Device device(plugin, 0);
  tenon_queue* queue = device.Queue();
  tenon_semaphore* s = device.Semaphore(1);
  Told before, by_queue, by_host, failed, late;
  ExpectEq(Text(device.driver->semaphore_notify(s, 1, Told::Take, &before)), "");
  before.done.get_future().wait();  // perhaps at once
  ExpectEq(Text(device.driver->semaphore_notify(s, 2, Told::Take, &by_queue)), "");
  ExpectEq(Text(device.driver->semaphore_notify(s, 3, Told::Take, &by_host)), "");
  ExpectEq(Text(device.driver->semaphore_notify(s, 4, Told::Take, &failed)), "");
  ExpectEq(device.Barrier(queue, {{}, s, 2}), "");
  by_queue.done.get_future().wait();
  Expect(by_host.texts.empty(), "nobody is told of a point before it is reached");
  ExpectEq(Text(device.driver->semaphore_signal(s, 3)), "");
  by_host.done.get_future().wait();
  device.driver->semaphore_fail(s, Aborted());
  ExpectEq(Text(device.driver->semaphore_notify(s, 9, Told::Take, &late)), "");
  for (Told* told : {&failed, &late}) told->done.get_future().wait();
  for (const Told* told : {&before, &by_queue, &by_host}) ExpectEq(told->texts, std::vector<std::string>{""});
  for (const Told* told : {&failed, &late}) ExpectEq(told->texts, std::vector<std::string>{kAborted});
}

inline void MemoryIsAlignedAsAskedFor(const DeviceSubject& subject) {
  const Loaded plugin(subject.library, subject.one);
  Device device(plugin, 0);
  device.Memory(100);
  for (uint64_t alignment : {1u, 64u, 4096u, 2097152u}) {
    void* data = nullptr;
    ExpectEq(Text(device.driver->allocate(device.device, 0, 100, alignment, nullptr, &data)), "");
    ExpectEq(reinterpret_cast<uintptr_t>(data) % alignment, 0u);
  }
  void* data = nullptr;
  ExpectEq(Text(device.driver->allocate(device.device, 0, 100, 3, nullptr, &data)),
            "INVALID_ARGUMENT: alignment 3 is not a power of two up to 2097152");
}

inline void QueueCopiesBetweenDevicesAndThroughStaging(const DeviceSubject& subject) {
  const Loaded plugin(subject.library, subject.two);
  Device one(plugin, 0), two(plugin, 1);
  tenon_queue* queue = one.Queue();
  void* here = one.Memory(256);
  void* there = two.Memory(256);
  void* staging = one.Memory(256, 1);
  std::memset(staging, 9, 256);
  ExpectEq(one.CopyWithin(queue, staging, here, 256), "");
  ExpectEq(one.Copy(queue, here, one.device, there, two.device, 256), "");
  ExpectEq(one.Finish(queue), "");
  ExpectEq(two.Download<uint8_t>(two.Queue(), there, 256), std::vector<uint8_t>(256, 9));
}

// Larger than what a driver would pass through memory of its own in one piece.
inline void QueueCopiesLargeMemoryOfTheHost(const DeviceSubject& subject) {
  const Loaded plugin(subject.library, subject.one);
  Device device(plugin, 0);
  tenon_queue* queue = device.Queue();
  std::vector<uint32_t> values(3'000'000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint32_t>(i * 2654435761u);
  void* there = device.Memory(values.size() * 4);
  device.Upload(queue, values, there);
  ExpectEq(device.Download<uint32_t>(queue, there, values.size()), values);
}

inline void SemaphoreThatTheHostFailsLetsGoWhatWaitsAndFailsIt(const DeviceSubject& subject) {
  const Loaded plugin(subject.library, subject.one);
  Device device(plugin, 0);
  tenon_queue* waiting = device.Queue();
  tenon_queue* own = device.Queue();
  tenon_semaphore* gate = device.Semaphore();
  tenon_semaphore* never = device.Semaphore();
  tenon_semaphore* s = device.Semaphore();
  tenon_semaphore* later = device.Semaphore();
  void* data = device.Memory(8);
  ExpectEq(device.Fill(waiting, data, 8, 1, {{{gate, 1}}, s, 1}), "");
  ExpectEq(device.Fill(own, data, 8, 2, {{{never, 1}}, gate, 1}), "");
  device.driver->semaphore_fail(gate, Aborted());
  ExpectEq(device.Wait(s, 1), kAborted);
  ExpectEq(device.Finish(waiting), "");
  // What waits for a failed point fails from there on, and the queue goes on with other timelines.
  ExpectEq(device.Barrier(waiting, {{}, later, 1}), "");
  ExpectEq(device.Barrier(waiting, {{{s, 1}}, later, 2}), "");
  ExpectEq(device.Wait(later, 1), "");
  ExpectEq(device.Wait(later, 2), kAborted);
  device.driver->semaphore_fail(never, Aborted());
  ExpectEq(device.Finish(own), "");
}

inline void SemaphoreStaysFailedWhenItIsSignalledLate(const DeviceSubject& subject) {
  const Loaded plugin(subject.library, subject.one);
  Device device(plugin, 0);
  tenon_queue* first = device.Queue();
  tenon_queue* second = device.Queue();
  tenon_semaphore* gate = device.Semaphore();
  tenon_semaphore* s = device.Semaphore();
  ExpectEq(device.Barrier(first, {{{gate, 1}}, s, 1}), "");
  ExpectEq(device.Barrier(first, {{}, s, 2}), "");
  ExpectEq(device.Barrier(second, {{{s, 9}}}), "");  // a point that nobody will signal
  device.driver->semaphore_fail(s, Aborted());
  ExpectEq(Text(device.driver->semaphore_signal(gate, 1)), "");  // the first queue goes on, and signals below 9
  ExpectEq(device.Finish(second), "");
  ExpectEq(device.Finish(first), "");
}

inline void QueueThatIsDestroyedEndsWhatItWaitsFor(const DeviceSubject& subject) {
  const Loaded plugin(subject.library, subject.one);
  Device device(plugin, 0);
  tenon_queue* queue = device.Queue();
  tenon_semaphore* never = device.Semaphore();
  tenon_semaphore* blocked = device.Semaphore();
  std::string told;
  ExpectEq(device.Barrier(queue, {{{never, 1}}, blocked, 1}), "");
  ExpectEq(device.HostCall(queue, &told, {{}, blocked, 2}), "");
  device.Destroy(queue);
  ExpectEq(CodeOf(device.Wait(blocked, 1)), "CANCELLED");
  ExpectEq(CodeOf(told), "CANCELLED");
}

inline void QueueRefusesAddressesThatAreNotWhereTheySay(const DeviceSubject& subject) {
  const Loaded plugin(subject.library, subject.one);
  Device device(plugin, 0);
  tenon_queue* queue = device.Queue();
  char* data = static_cast<char*>(device.Memory(256));
  char host[512];
  ExpectEq(CodeOf(device.CopyWithin(queue, host, data, 4)), "INVALID_ARGUMENT");
  ExpectEq(CodeOf(device.CopyWithin(queue, data, data + 200, 57)), "INVALID_ARGUMENT");
  ExpectEq(CodeOf(device.Copy(queue, data, nullptr, host, nullptr, 4)), "INVALID_ARGUMENT");
  ExpectEq(CodeOf(device.Copy(queue, nullptr, nullptr, data, device.device, 4)), "INVALID_ARGUMENT");
  ExpectEq(device.Finish(queue), "");
}

}  // namespace device_suite

// All cases; each loads the library anew.
inline std::vector<SuiteCase<DeviceSubject>> DeviceCases() {
#define TENON_TESTING_CASE(name) {#name, device_suite::name}
  return {
      TENON_TESTING_CASE(QueueWorksInOrder),
      TENON_TESTING_CASE(QueueRepeatsPatternsOfEverySize),
      TENON_TESTING_CASE(QueueRefusesSubmissionsThatMakeNoSense),
      TENON_TESTING_CASE(QueueWaitsForWhatAnotherQueueSignals),
      TENON_TESTING_CASE(QueueCallsTheHostWhenItGetsThereAndThenSignals),
      TENON_TESTING_CASE(QueueMayBeDestroyedFromItsOwnHostCall),
      TENON_TESTING_CASE(QueueTakesItemsAgainThatAreDone),
      TENON_TESTING_CASE(DeviceMayBeClosedBeforeTheirHandlesAreGivenBack),
      TENON_TESTING_CASE(SemaphoreIsWaitedForUntilTheDeadlineAndNoLonger),
      TENON_TESTING_CASE(SemaphoreOnlyCountsUp),
      TENON_TESTING_CASE(SemaphoreWakesSeveralThreads),
      TENON_TESTING_CASE(SemaphoreThatTheHostFailsKeepsWhatItReached),
      TENON_TESTING_CASE(SemaphoreTellsWhoAskedWhenAPointIsReachedOrCannotBe),
      TENON_TESTING_CASE(MemoryIsAlignedAsAskedFor),
      TENON_TESTING_CASE(QueueCopiesBetweenDevicesAndThroughStaging),
      TENON_TESTING_CASE(QueueCopiesLargeMemoryOfTheHost),
      TENON_TESTING_CASE(SemaphoreThatTheHostFailsLetsGoWhatWaitsAndFailsIt),
      TENON_TESTING_CASE(SemaphoreStaysFailedWhenItIsSignalledLate),
      TENON_TESTING_CASE(QueueThatIsDestroyedEndsWhatItWaitsFor),
      TENON_TESTING_CASE(QueueRefusesAddressesThatAreNotWhereTheySay),
  };
#undef TENON_TESTING_CASE
}

}  // namespace tenon::testing

#endif  // TENON_TESTING_DEVICE_SUITE_H_
