// SPDX-License-Identifier: Apache-2.0
// A device with queues in one file: each queue is a thread, timelines say how far it came, and one kernel shows how
// work is submitted; kernels of other packages find how in launch.h (kernel_plugin is one). Start a driver from here by
// putting your hardware's memory, streams and events in their places.
//
// tenon/sdk/device/device.h makes the table from Driver, checks what comes, and says what each member must do. One lock
// guards everything: simple before fast. What tenon/device.h says of timelines stands in Obstacle() and Serve().
#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "launch.h"
#include "tenon/sdk/device/device.h"

namespace {

using tenon::sdk::Fault;
using tenon::sdk::Handled;
using tenon::sdk::HostCall;
using tenon::sdk::Memory;
using tenon::sdk::Outcome;

// Both outlive all: a process may end while queues' threads wait.
std::mutex& lock = *new std::mutex;
std::condition_variable& changed = *new std::condition_variable;  // of a timeline or a queue

struct Device : Handled<Device, tenon_device> {
  static std::string_view name() { return "ASYNC:0"; }
};

struct Timeline : Handled<Timeline, tenon_semaphore> {
  explicit Timeline(uint64_t initial) : value(initial) {}
  void Fail(const Outcome& why) {
    if (!failure.ok()) return;  // the first failure is the one that is told
    failure = why;
    changed.notify_all();
  }
  uint64_t value;
  Outcome failure;  // from the point after `value` on
};

struct Task {
  std::vector<tenon_timeline_point> waits;
  Timeline* timeline;
  uint64_t signal;
  std::function<void()> work;
  std::function<void(const Outcome&)> tell;  // of a host call: called whatever happened
};

class Queue : public Handled<Queue, tenon_queue> {
 public:
  explicit Queue(Device& device) : device_(device), thread_([this] { Serve(); }) {}
  Device& device() const { return device_; }

  void Submit(const tenon_submission& submission, std::function<void()> work,
              std::function<void(const Outcome&)> tell = nullptr) {
    const std::lock_guard guard(lock);
    tasks_.push_back({{submission.waits, submission.waits + submission.wait_count},
                      Timeline::Of(submission.timeline),
                      submission.signal,
                      std::move(work),
                      std::move(tell)});
    changed.notify_all();
  }
  void Close() {
    {
      const std::lock_guard guard(lock);
      stop_ = true;
      changed.notify_all();
    }
    thread_.join();
  }

 private:
  // What is in the way of the task; waits until that is known.
  Outcome Obstacle(const Task& task, std::unique_lock<std::mutex>* guard) {
    for (const tenon_timeline_point& point : task.waits) {
      const Timeline& timeline = *Timeline::Of(point.semaphore);
      changed.wait(*guard, [&] { return stop_ || timeline.value >= point.value || !timeline.failure.ok(); });
      if (timeline.value < point.value && !timeline.failure.ok()) return timeline.failure;
    }
    if (task.timeline != nullptr && !task.timeline->failure.ok()) return task.timeline->failure;
    return stop_ ? Fault(TENON_CANCELLED, "the queue is being destroyed") : Outcome();
  }
  void Serve() {
    std::unique_lock guard(lock);
    for (;;) {
      changed.wait(guard, [&] { return stop_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      const Task task = std::move(tasks_.front());
      tasks_.pop_front();
      const Outcome outcome = Obstacle(task, &guard);
      if (outcome.ok()) {
        guard.unlock();
        if (task.work) task.work();
        guard.lock();
        if (task.timeline != nullptr && task.signal != 0) task.timeline->value = task.signal;
        changed.notify_all();
      } else if (task.timeline != nullptr) {
        task.timeline->Fail(outcome);
      }
      if (!task.tell) continue;
      guard.unlock();
      task.tell(outcome);
      guard.lock();
    }
  }

  Device& device_;
  std::deque<Task> tasks_;
  bool stop_ = false;
  std::thread thread_;  // the last: it uses the others
};

// ---- The kernel: Square of floats ----

tenon_status* RunSquare(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  // Addresses and sizes are taken now: views end with this call.
  const auto* x = tenon::sdk::Data<const float>(*frame->inputs[0]);
  auto* y = tenon::sdk::Data<float>(*frame->outputs[0]);
  const uint64_t count = frame->inputs[0]->byte_size / sizeof(float);
  const tenon_submission submission = {TENON_HEAD(tenon_submission), nullptr, 0, frame->timeline, 0, frame->label};
  return tenon::sdk::Answer([&] {
    Queue::Of(frame->queue)->Submit(submission, [x, y, count] {
      for (uint64_t i = 0; i < count; ++i) y[i] = x[i] * x[i];
    });
  });
}

constexpr uint32_t kFloat[] = {TENON_DT_FLOAT};
constexpr tenon_type_constraint kFloats[] = {{TENON_SPAN("T"), kFloat, 1}};
constexpr tenon_kernel_registration kSquare = [] {
  tenon_kernel_registration kernel = {};
  kernel.struct_size = sizeof kernel;
  kernel.op = TENON_SPAN("Square");
  kernel.device_type = TENON_SPAN("ASYNC");
  kernel.constraints = kFloats;
  kernel.constraint_count = 1;
  kernel.run = RunSquare;
  return kernel;
}();
const tenon_kernel_registration* const kRegistrations[] = {&kSquare};
const tenon_kernel_package kKernels = {TENON_HEAD(tenon_kernel_package), kRegistrations, 1};

// ---- For kernels of other packages (launch.h) ----

tenon_status* Launch(const tenon_frame* frame, void (*function)(void*), const void* argument, uint64_t bytes) {
  const tenon_submission submission = {TENON_HEAD(tenon_submission), nullptr, 0, frame->timeline, 0, frame->label};
  return tenon::sdk::Answer([&] {
    std::shared_ptr<char[]> kept(new char[bytes]);
    std::memcpy(kept.get(), argument, bytes);
    Queue::Of(frame->queue)->Submit(submission, [function, kept] { function(kept.get()); });
  });
}
constexpr example_launch kLaunch = {TENON_HEAD(example_launch), Launch};

// ---- The driver ----

// What is not named here is NULL in the table: the device does not have it.
struct Driver {
  static constexpr tenon_span kDeviceType = TENON_SPAN("ASYNC");
  static constexpr int32_t kPriority = -100;
  static constexpr std::string_view kMemoryKinds[] = {"device"};
  static constexpr uint64_t kMostAlignment = 4096;
  using Device = ::Device;
  using Queue = ::Queue;
  using Timeline = ::Timeline;
  using Place = tenon::sdk::Place<Device>;

  static void Count(tenon_plugin_self*, uint32_t* out_count) { *out_count = 1; }
  static void Open(tenon_plugin_self*, uint32_t, std::shared_ptr<Device>* out_device) {
    *out_device = std::make_shared<Device>();
  }
  static void Properties(Device&, tenon_device_properties* out) {
    out->name = TENON_SPAN("threads that pretend");
    out->dl_device_type = 12;  // kDLExtDev
    out->compute_queues = 1;
  }
  static void MemoryKind(Device&, uint32_t, tenon_memory_kind* out) { out->alignment = 64; }

  static Outcome Allocate(Device&, uint32_t, uint64_t bytes, uint64_t alignment, Queue*, Memory* out) {
    alignment = std::max<uint64_t>(alignment, 64);
    if (bytes <= SIZE_MAX - alignment)
      out->handle = std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
    return out->handle != nullptr ? Outcome() : Fault(TENON_RESOURCE_EXHAUSTED, "the ASYNC device has no memory left");
  }
  static void Free(Device&, uint32_t, Memory memory, uint64_t, Queue* queue) {
    const auto free = [data = tenon::sdk::AddressOf(memory)](const Outcome&) { std::free(data); };
    queue == nullptr ? free({}) : queue->Submit({}, nullptr, free);  // after the work that may name it
  }

  static const void* Extension(Device&, std::string_view id) { return id == EXAMPLE_LAUNCH_ID ? &kLaunch : nullptr; }

  static void MakeQueue(Device& device, int32_t, std::shared_ptr<Queue>* out_queue) {
    *out_queue = std::make_shared<Queue>(device);
  }
  static void CloseQueue(Queue& queue) { queue.Close(); }
  static void Copy(Queue& queue, const Place& target, const Place& source, uint64_t bytes,
                   const tenon_submission& submission) {
    queue.Submit(submission, [to = AddressOf(target.memory), from = AddressOf(source.memory), bytes] {
      if (bytes != 0) std::memcpy(to, from, bytes);
    });
  }
  static void Barrier(Queue& queue, const tenon_submission& submission) { queue.Submit(submission, nullptr); }
  static void CallHost(Queue& queue, HostCall call, const tenon_submission& submission) {
    queue.Submit(submission, nullptr, call);
  }

  static void MakeTimeline(Device&, uint64_t initial, std::shared_ptr<Timeline>* out_timeline) {
    *out_timeline = std::make_shared<Timeline>(initial);
  }
  static Outcome Query(const Timeline& timeline, uint64_t* out_value) {
    const std::lock_guard guard(lock);
    *out_value = timeline.value;
    return timeline.failure;
  }
  static void Fail(Timeline& timeline, const Outcome& why) {
    const std::lock_guard guard(lock);
    timeline.Fail(why);
  }
  static Outcome Wait(const Timeline& timeline, uint64_t value, tenon::sdk::Deadline deadline) {
    std::unique_lock guard(lock);
    const bool known =
        changed.wait_until(guard, deadline, [&] { return timeline.value >= value || !timeline.failure.ok(); });
    if (!known) return Fault(TENON_DEADLINE_EXCEEDED, "the point was not reached in time");
    return timeline.value >= value ? Outcome() : timeline.failure;
  }
};

const tenon_capability kCapabilities[] = {TENON_PROVIDES(DEVICE, &tenon::sdk::kDeviceTable<Driver>),
                                          TENON_PROVIDES(KERNELS, &kKernels)};

}  // namespace

TENON_PLUGIN("example.async_device", "1.0.0", "A device with queues, each a thread, and a kernel that squares.",
             kCapabilities)
