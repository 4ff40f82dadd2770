// SPDX-License-Identifier: Apache-2.0
// A device with queues in one file: each queue is a thread, timelines say how far it came, and one kernel shows how work
// is submitted. Start a driver from here by putting your hardware's memory, streams and events in their places.
//
// One lock guards everything: simple before fast. What device.h says of timelines stands in Reached() and Serve().
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tenon/plugin.h"

namespace {
std::mutex lock;
std::condition_variable changed;  // of a timeline or a queue
}  // namespace

struct tenon_device {
  int32_t index = 0;
};

struct tenon_semaphore {
  uint64_t value = 0;
  uint32_t failed = TENON_OK;  // from the point after `value` on
  std::string why;
};

struct Task {
  std::vector<tenon_timeline_point> waits;
  tenon_semaphore* timeline;
  uint64_t signal;
  std::function<void()> work;
  std::function<void(tenon_status*)> tell;  // of a host call: called whatever happened
};

struct tenon_queue {
  std::deque<Task> tasks;
  bool stop = false;
  std::thread thread;
};

namespace {

tenon_status* Failure(const tenon_semaphore& semaphore) { return tenon_plugin_error(semaphore.failed, semaphore.why.c_str()); }

void Fail(tenon_semaphore* timeline, uint32_t code, const std::string& why) {
  if (timeline == nullptr || timeline->failed != TENON_OK) return;  // the first failure is the one that is told
  timeline->failed = code;
  timeline->why = why;
  changed.notify_all();
}

bool Reached(const tenon_timeline_point& point) { return point.semaphore->value >= point.value; }

// The first thing in the way of the task; nullptr: it may run. Blocks until that is known.
tenon_semaphore* Obstacle(tenon_queue* queue, const Task& task, std::unique_lock<std::mutex>* guard) {
  for (const tenon_timeline_point& point : task.waits) {
    changed.wait(*guard, [&] { return queue->stop || Reached(point) || point.semaphore->failed != TENON_OK; });
    if (!Reached(point)) return point.semaphore;
  }
  return task.timeline != nullptr && task.timeline->failed != TENON_OK ? task.timeline : nullptr;
}

void Serve(tenon_queue* queue) {
  std::unique_lock guard(lock);
  for (;;) {
    changed.wait(guard, [&] { return queue->stop || !queue->tasks.empty(); });
    if (queue->tasks.empty()) return;
    const Task task = std::move(queue->tasks.front());
    queue->tasks.pop_front();
    const tenon_semaphore* obstacle = Obstacle(queue, task, &guard);
    const bool cancelled = queue->stop;
    tenon_status* status = obstacle != nullptr && obstacle->failed != TENON_OK ? Failure(*obstacle)
                           : cancelled ? tenon_plugin_error(TENON_CANCELLED, "the queue is being destroyed")
                                       : nullptr;
    if (status != nullptr) {
      Fail(task.timeline, cancelled ? uint32_t{TENON_CANCELLED} : obstacle->failed, cancelled ? "the queue is being destroyed" : obstacle->why);
    } else {
      guard.unlock();
      if (task.work) task.work();
      guard.lock();
      if (task.timeline != nullptr && task.signal != 0) task.timeline->value = task.signal;
      changed.notify_all();
    }
    if (task.tell) {
      guard.unlock();
      task.tell(status);
      guard.lock();
    } else if (status != nullptr) {
      tenon_plugin_host->status_release(status);
    }
  }
}

tenon_status* Submit(tenon_queue* queue, const tenon_submission& submission, std::function<void()> work,
                     std::function<void(tenon_status*)> tell = nullptr) {
  std::lock_guard guard(lock);
  queue->tasks.push_back({{submission.waits, submission.waits + submission.wait_count}, submission.timeline, submission.signal,
                          std::move(work), std::move(tell)});
  changed.notify_all();
  return nullptr;
}

// ---- The kernel: Square of floats ----

tenon_status* RunSquare(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  // Addresses and sizes are taken now: views end with this call.
  const auto* x = static_cast<const float*>(frame->inputs[0]->dl.data) + frame->inputs[0]->dl.byte_offset / sizeof(float);
  auto* y = static_cast<float*>(frame->outputs[0]->dl.data) + frame->outputs[0]->dl.byte_offset / sizeof(float);
  const uint64_t count = frame->inputs[0]->byte_size / sizeof(float);
  const tenon_submission submission = {TENON_HEAD(tenon_submission), nullptr, 0, frame->timeline, 0, frame->label};
  return Submit(frame->queue, submission, [x, y, count] {
    for (uint64_t i = 0; i < count; ++i) y[i] = x[i] * x[i];
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

// ---- The driver ----

tenon_device the_device;

// What is not named here is NULL: the device does not have it.
constexpr tenon_device_driver kDriver = [] {
  tenon_device_driver driver = {};
  driver.struct_size = sizeof driver;
  driver.device_type = TENON_SPAN("ASYNC");
  driver.priority = -100;
  driver.count = [](tenon_plugin_self*, uint32_t* out_count) -> tenon_status* { return *out_count = 1, nullptr; };
  driver.open = [](tenon_plugin_self*, uint32_t, tenon_device** out_device) -> tenon_status* { return *out_device = &the_device, nullptr; };
  driver.close = [](tenon_device*) {};
  driver.properties = [](tenon_device*, tenon_device_properties* out) -> tenon_status* {
    out->name = TENON_SPAN("threads that pretend");
    out->dl_device_type = 12;  // kDLExtDev
    out->memory_kind_count = 1;
    out->compute_queues = 1;
    return nullptr;
  };
  driver.memory_kind = [](tenon_device*, uint32_t, tenon_memory_kind* out) -> tenon_status* {
    out->name = TENON_SPAN("device");
    out->alignment = 64;
    return nullptr;
  };
  driver.allocate = [](tenon_device*, uint32_t, uint64_t bytes, uint64_t, tenon_queue*, void** out_data) -> tenon_status* {
    *out_data = bytes > SIZE_MAX - 64 ? nullptr : std::aligned_alloc(64, (bytes + 64) / 64 * 64);
    return *out_data != nullptr ? nullptr : tenon_plugin_error(TENON_RESOURCE_EXHAUSTED, "the ASYNC device has no memory left");
  };
  driver.free = [](tenon_device*, uint32_t, void* data, uint64_t, tenon_queue* queue) {
    if (queue == nullptr) return std::free(data);
    (void)Submit(queue, {}, nullptr, [data](tenon_status* status) {  // after the work that may name it
      std::free(data);
      if (status != nullptr) tenon_plugin_host->status_release(status);
    });
  };
  driver.queue_create = [](tenon_device*, int32_t, tenon_queue** out_queue) -> tenon_status* {
    *out_queue = new tenon_queue;
    (*out_queue)->thread = std::thread(Serve, *out_queue);
    return nullptr;
  };
  driver.queue_destroy = [](tenon_queue* queue) {
    {
      std::lock_guard guard(lock);
      queue->stop = true;
      changed.notify_all();
    }
    queue->thread.join();
    delete queue;
  };
  driver.queue_copy = [](tenon_queue* queue, const tenon_copy_args* args, const tenon_submission* submission) -> tenon_status* {
    return Submit(queue, *submission, [copy = *args] { std::memcpy(copy.target, copy.source, copy.bytes); });
  };
  driver.queue_barrier = [](tenon_queue* queue, const tenon_submission* submission) { return Submit(queue, *submission, nullptr); };
  driver.queue_host_call = [](tenon_queue* queue, tenon_notify_function function, void* argument, const tenon_submission* submission) {
    return Submit(queue, *submission, nullptr, [function, argument](tenon_status* status) { function(argument, status); });
  };
  driver.semaphore_create = [](tenon_device*, uint64_t initial, tenon_semaphore** out_semaphore) -> tenon_status* {
    return *out_semaphore = new tenon_semaphore{initial, TENON_OK, {}}, nullptr;
  };
  driver.semaphore_destroy = [](tenon_semaphore* semaphore) { delete semaphore; };
  driver.semaphore_query = [](tenon_semaphore* semaphore, uint64_t* out_value) -> tenon_status* {
    std::lock_guard guard(lock);
    *out_value = semaphore->value;
    return semaphore->failed == TENON_OK ? nullptr : Failure(*semaphore);
  };
  driver.semaphore_fail = [](tenon_semaphore* semaphore, tenon_status* status) {
    {
      std::lock_guard guard(lock);
      const tenon_span text = tenon_plugin_host->status_message(status);
      Fail(semaphore, tenon_plugin_host->status_code(status), {text.data, text.size});
    }
    tenon_plugin_host->status_release(status);
  };
  driver.semaphore_wait = [](tenon_semaphore* semaphore, uint64_t value, uint64_t deadline_ns) -> tenon_status* {
    std::unique_lock guard(lock);
    const auto done = [&] { return semaphore->value >= value || semaphore->failed != TENON_OK; };
    if (deadline_ns == UINT64_MAX) changed.wait(guard, done);
    else if (!changed.wait_until(guard, std::chrono::steady_clock::time_point(std::chrono::nanoseconds(deadline_ns)), done))
      return tenon_plugin_error(TENON_DEADLINE_EXCEEDED, "the point was not reached in time");
    return semaphore->value >= value ? nullptr : Failure(*semaphore);
  };
  return driver;
}();

const tenon_capability kCapabilities[] = {{TENON_SPAN(TENON_CAPABILITY_DEVICE), &kDriver}, {TENON_SPAN(TENON_CAPABILITY_KERNELS), &kKernels}};

}  // namespace

TENON_PLUGIN("example.async_device", "1.0.0", "A device with queues, each a thread, and a kernel that squares.", kCapabilities)
