// SPDX-License-Identifier: Apache-2.0
// Two drivers, LEFT and RIGHT, whose queues are threads that take their time, each with a kernel for Square, and copies
// between the two (ext/draft/device_copy.h). Work marks the memory that it is at work with, so that whoever reuses
// memory too early is found (paired_control.h).
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "paired_control.h"
#include "tenon/ext/draft/device_copy.h"
#include "tenon/sdk/device/device.h"

namespace {

using tenon::sdk::Fault;
using tenon::sdk::Handled;
using tenon::sdk::HostCall;
using tenon::sdk::Memory;
using tenon::sdk::Outcome;

// These outlive all: a process may end while queues' threads wait.
std::mutex& lock = *new std::mutex;
std::condition_variable& changed = *new std::condition_variable;
uint64_t between = 0, by_host = 0, races = 0;
uint32_t mode = 1;

// Pieces of memory that queues are at work with: begin, end and whether it is written. Under the lock.
struct Use {
  const char* begin;
  const char* end;
  bool writes;
};
std::vector<Use>& uses = *new std::vector<Use>;

struct Device : Handled<Device, tenon_device> {
  static std::string_view name() { return "PAIRED:0"; }
};

struct Timeline : Handled<Timeline, tenon_semaphore> {
  explicit Timeline(uint64_t initial) : value(initial) {}
  uint64_t value;
  Outcome failure;
};

struct Task {
  std::vector<tenon_timeline_point> waits;
  Timeline* timeline;
  uint64_t signal;
  std::vector<Use> memory;
  std::function<void()> work;
  std::function<void(const Outcome&)> tell;
};

class Queue : public Handled<Queue, tenon_queue> {
 public:
  explicit Queue(Device& device) : device_(device), thread_([this] { Serve(); }) {}
  Device& device() const { return device_; }
  void Submit(const tenon_submission& submission, std::vector<Use> memory, std::function<void()> work,
              std::function<void(const Outcome&)> tell = nullptr) {
    const std::lock_guard guard(lock);
    tasks_.push_back({{submission.waits, submission.waits + submission.wait_count},
                      submission.timeline == nullptr ? nullptr : Timeline::Of(submission.timeline),
                      submission.signal,
                      std::move(memory),
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
  Outcome Obstacle(const Task& task, std::unique_lock<std::mutex>* guard) {
    for (const tenon_timeline_point& point : task.waits) {
      const Timeline& timeline = *Timeline::Of(point.semaphore);
      changed.wait(*guard, [&] { return stop_ || timeline.value >= point.value || !timeline.failure.ok(); });
      if (timeline.value < point.value && !timeline.failure.ok()) return timeline.failure;
    }
    if (task.timeline != nullptr && !task.timeline->failure.ok()) return task.timeline->failure;
    return stop_ ? Fault(TENON_CANCELLED, "the queue is being destroyed") : Outcome();
  }
  static void Begin(const std::vector<Use>& memory) {
    for (const Use& use : memory) {
      for (const Use& other : uses)
        races += use.begin < other.end && other.begin < use.end && (use.writes || other.writes);
      uses.push_back(use);
    }
  }
  static void End(const std::vector<Use>& memory) {
    for (const Use& use : memory)
      for (auto it = uses.begin(); it != uses.end(); ++it)
        if (it->begin == use.begin && it->end == use.end && it->writes == use.writes) {
          uses.erase(it);
          break;
        }
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
        Begin(task.memory);
        guard.unlock();
        if (task.work) {
          std::this_thread::sleep_for(std::chrono::microseconds(200));
          task.work();
        }
        guard.lock();
        End(task.memory);
        if (task.timeline != nullptr && task.signal != 0) task.timeline->value = task.signal;
        changed.notify_all();
      } else if (task.timeline != nullptr && task.timeline->failure.ok()) {
        task.timeline->failure = outcome;
        changed.notify_all();
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

Use Reads(const void* data, uint64_t bytes) {
  return {static_cast<const char*>(data), static_cast<const char*>(data) + bytes, false};
}
Use Writes(const void* data, uint64_t bytes) {
  return {static_cast<const char*>(data), static_cast<const char*>(data) + bytes, true};
}

void SubmitCopy(Queue& queue, void* to, const void* from, uint64_t bytes, const tenon_submission& submission) {
  queue.Submit(submission, {Reads(from, bytes), Writes(to, bytes)}, [to, from, bytes] {
    if (bytes != 0) std::memcpy(to, from, bytes);
  });
}

tenon_status* RunSquare(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  const auto* x = tenon::sdk::Data<const float>(*frame->inputs[0]);
  auto* y = tenon::sdk::Data<float>(*frame->outputs[0]);
  const uint64_t bytes = frame->inputs[0]->byte_size;
  const tenon_submission submission = {TENON_HEAD(tenon_submission), nullptr, 0, frame->timeline, 0, frame->label};
  return tenon::sdk::Answer([&] {
    std::vector<Use> memory = {Writes(y, bytes)};
    if (x != y) memory.push_back(Reads(x, bytes));
    Queue::Of(frame->queue)->Submit(submission, std::move(memory), [x, y, bytes] {
      for (uint64_t i = 0; i < bytes / sizeof(float); ++i) y[i] = x[i] * x[i];
    });
  });
}

constexpr uint32_t kFloat[] = {TENON_DT_FLOAT};
constexpr tenon_type_constraint kFloats[] = {{TENON_SPAN("T"), kFloat, 1}};
constexpr tenon_kernel_registration SquareFor(tenon_span type) {
  tenon_kernel_registration kernel = {};
  kernel.struct_size = sizeof kernel;
  kernel.op = TENON_SPAN("Square");
  kernel.device_type = type;
  kernel.constraints = kFloats;
  kernel.constraint_count = 1;
  kernel.run = RunSquare;
  return kernel;
}

struct Left {
  static constexpr tenon_span kType = TENON_SPAN("LEFT");
};
struct Right {
  static constexpr tenon_span kType = TENON_SPAN("RIGHT");
};
constexpr tenon_kernel_registration kSquares[] = {SquareFor(Left::kType), SquareFor(Right::kType)};
const tenon_kernel_registration* const kRegistrations[] = {&kSquares[0], &kSquares[1]};
const tenon_kernel_package kKernels = {TENON_HEAD(tenon_kernel_package), kRegistrations, 2};

template <class Side>
struct Driver {
  static constexpr tenon_span kDeviceType = Side::kType;
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
    out->name = TENON_SPAN("threads that take their time");
    out->dl_device_type = 12;  // kDLExtDev
    out->compute_queues = 2;
  }
  static void MemoryKind(Device&, uint32_t, tenon_memory_kind* out) { out->alignment = 64; }
  static Outcome Allocate(Device&, uint32_t, uint64_t bytes, uint64_t, Queue*, Memory* out) {
    out->handle = std::aligned_alloc(4096, (bytes + 4096) / 4096 * 4096);
    return out->handle != nullptr ? Outcome() : Fault(TENON_RESOURCE_EXHAUSTED, "no memory left");
  }
  static void Free(Device&, uint32_t, Memory memory, uint64_t, Queue* queue) {
    const auto free = [data = tenon::sdk::AddressOf(memory)](const Outcome&) { std::free(data); };
    queue == nullptr ? free({}) : queue->Submit({}, {}, nullptr, free);
  }
  static void MakeQueue(Device& device, int32_t, std::shared_ptr<Queue>* out_queue) {
    *out_queue = std::make_shared<Queue>(device);
  }
  static void CloseQueue(Queue& queue) { queue.Close(); }
  static void Copy(Queue& queue, const Place& target, const Place& source, uint64_t bytes,
                   const tenon_submission& submission) {
    if (target.device == nullptr || source.device == nullptr) {
      const std::lock_guard guard(lock);
      ++by_host;
    }
    SubmitCopy(queue, AddressOf(target.memory), AddressOf(source.memory), bytes, submission);
  }
  static void Barrier(Queue& queue, const tenon_submission& submission) { queue.Submit(submission, {}, nullptr); }
  static void CallHost(Queue& queue, HostCall call, const tenon_submission& submission) {
    queue.Submit(submission, {}, nullptr, call);
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
    if (timeline.failure.ok()) timeline.failure = why;
    changed.notify_all();
  }
  static Outcome Wait(const Timeline& timeline, uint64_t value, tenon::sdk::Deadline deadline) {
    std::unique_lock guard(lock);
    const bool known =
        changed.wait_until(guard, deadline, [&] { return timeline.value >= value || !timeline.failure.ok(); });
    if (!known) return Fault(TENON_DEADLINE_EXCEEDED, "the point was not reached in time");
    return timeline.value >= value ? Outcome() : timeline.failure;
  }
};

// ---- Between the two ----

tenon_status* Reaches(tenon_plugin_self*, const tenon_device_pair* pair, uint32_t* out_reaches) {
  const std::lock_guard guard(lock);
  if (mode == 2) return tenon_plugin_error(TENON_UNAVAILABLE, "the cable is out");
  *out_reaches = mode != 0 && pair->source != pair->target;
  return nullptr;
}
tenon_status* Between(tenon_plugin_self*, tenon_queue* queue, const tenon_copy_args* args,
                      const tenon_submission* submission) {
  {
    const std::lock_guard guard(lock);
    if (mode == 3) return tenon_plugin_error(TENON_INTERNAL, "the cable was cut");
    ++between;
  }
  return tenon::sdk::Answer(
      [&] { SubmitCopy(*Queue::Of(queue), args->target, args->source, args->bytes, *submission); });
}
constexpr tenon_device_copy CopiesFrom(tenon_span source, tenon_span target) {
  return {TENON_HEAD(tenon_device_copy), source, target, 1e-6, 1e10, Reaches, Between};
}
constexpr tenon_device_copy kCopies[] = {CopiesFrom(Left::kType, Right::kType), CopiesFrom(Right::kType, Left::kType)};

template <uint64_t* kValue>
uint64_t Get() {
  const std::lock_guard guard(lock);
  return *kValue;
}
const tenon_test_paired kControl = {Get<&between>, Get<&by_host>,
                                    [](uint32_t what) {
                                      const std::lock_guard guard(lock);
                                      mode = what;
                                    },
                                    Get<&races>};

const tenon_capability kCapabilities[] = {TENON_PROVIDES(DEVICE, &tenon::sdk::kDeviceTable<Driver<Left>>),
                                          TENON_PROVIDES(DEVICE, &tenon::sdk::kDeviceTable<Driver<Right>>),
                                          TENON_PROVIDES(KERNELS, &kKernels),
                                          TENON_PROVIDES(DEVICE_COPY, &kCopies[0]),
                                          TENON_PROVIDES(DEVICE_COPY, &kCopies[1]),
                                          {TENON_SPAN(TENON_TEST_PAIRED), &kControl, 0}};

}  // namespace

TENON_PLUGIN("tenon.test.paired", "1.0.0", "Two drivers, and copies between their devices.", kCapabilities)
