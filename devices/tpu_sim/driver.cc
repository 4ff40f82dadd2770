// SPDX-License-Identifier: Apache-2.0
// The driver table: checks what comes over the ABI, and turns it into work.
#include "driver.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <string_view>
#include <utility>

#include "tenon/ext/draft/profile.h"

namespace tenon::tpu_sim {
namespace {

using Lock = std::unique_lock<std::mutex>;

std::shared_ptr<System>& SystemOf(tenon_plugin_self* self) { return *reinterpret_cast<std::shared_ptr<System>*>(self); }

// Runs function(), which gives an Outcome; nothing is thrown on.
template <class Function>
tenon_status* Answer(Function&& function) {
  return sdk::Guard([&] { return ToStatus(function()); });
}

// For functions that cannot say so.
void LogFailure(tenon_status* failed) {
  if (failed == nullptr) return;
  tenon_plugin_host->log(TENON_LOG_ERROR, tenon_plugin_host->status_message(failed));
  tenon_plugin_host->status_release(failed);
}

// The order for a submission to the queue, when its points are of this driver.
Outcome OrderOf(const tenon_queue* queue, const tenon_submission& submission, Order* out) {
  if (submission.must_understand != 0) return Fault(TENON_UNIMPLEMENTED, "a submission with a feature that this plugin does not know");
  const System* system = &queue->queue->device().system();
  for (uint64_t i = 0; i < submission.wait_count; ++i) {
    const tenon_semaphore* semaphore = submission.waits[i].semaphore;
    if (semaphore == nullptr) return Fault(TENON_INVALID_ARGUMENT, "wait ", i, " has no semaphore");
    if (&semaphore->timeline.owner().system() != system) {
      return Fault(TENON_INVALID_ARGUMENT, "wait ", i, " is for a semaphore of another driver");
    }
  }
  if (submission.timeline == nullptr && submission.signal != 0) {
    return Fault(TENON_INVALID_ARGUMENT, "a signal of ", submission.signal, " without a timeline");
  }
  out->label = submission.label;
  out->timeline = submission.timeline == nullptr ? nullptr : &submission.timeline->timeline;
  out->signal = submission.signal;
  out->waits = submission.waits;
  out->wait_count = submission.wait_count;
  return {};
}

// ---- Devices ----

tenon_status* Count(tenon_plugin_self* self, uint32_t* out_count) {
  *out_count = static_cast<uint32_t>(SystemOf(self)->options().devices);
  if (*out_count == 0)
    return sdk::Failure(TENON_NOT_FOUND, "no simulated device was asked for: set the option tenon.tpu_sim.devices");
  return nullptr;
}

tenon_status* Open(tenon_plugin_self* self, uint32_t index, tenon_device** out_device) {
  *out_device = nullptr;
  return Answer([&]() -> Outcome {
    const std::shared_ptr<System>& system = SystemOf(self);
    if (index >= system->options().devices) {
      return Fault(TENON_NOT_FOUND, "TPU device ", index, "; there are ", system->options().devices, " (option devices)");
    }
    auto device = std::make_shared<Device>(system, index);
    Outcome outcome = device->Open();
    if (outcome.ok()) *out_device = new tenon_device{std::move(device)};
    return outcome;
  });
}

void Close(tenon_device* device) {
  if (device == nullptr) return;
  device->device->Close();
  delete device;
}

tenon_status* Properties(tenon_device* device, tenon_device_properties* out) {
  const Options& options = device->device->options();
  const bool exact = options.precision != Precision::kBfloat16;
  out->name = sdk::ToSpan("Simulated TPU-style accelerator");
  out->dl_device_type = 12;  // kDLExtDev: DLPack has no number for a TPU
  out->dl_device_id = static_cast<int32_t>(device->device->index());
  out->synchronous = 0;
  out->memory_kind_count = kKinds;
  out->flops = PeakOperations(options.machine) / (exact ? static_cast<double>(kFloatPasses) : 1.0);
  out->bytes_per_second = options.machine.memory_bandwidth;
  out->link_bytes_per_second = options.machine.host_bandwidth;
  out->peer_bytes_per_second = options.machine.interconnect_bandwidth;
  out->copy_seconds = static_cast<double>(options.machine.transfer_latency) / options.machine.clock;
  out->launch_seconds = static_cast<double>(options.launch_cycles) / options.machine.clock;
  out->compute_queues = static_cast<uint32_t>(options.cores);
  return nullptr;
}

tenon_status* MemoryKind(tenon_device* device, uint32_t index, tenon_memory_kind* out) {
  const Options& options = device->device->options();
  if (index >= kKinds) return sdk::Failure(TENON_NOT_FOUND, "memory kind ", index, "; there are 0 (device) and 1 (staging)");
  const bool staging = index == kStagingKind;
  out->name = staging ? sdk::ToSpan("staging") : sdk::ToSpan("device");
  out->alignment = kAlignment;
  out->total_bytes = static_cast<uint64_t>(staging ? options.staging_bytes : options.memory_bytes);
  out->flags = staging ? TENON_MEMORY_HOST_VISIBLE : 0;
  return nullptr;
}

// ---- Memory ----

tenon_status* Allocate(tenon_device* device, uint32_t kind, uint64_t bytes, uint64_t alignment, tenon_queue* queue,
                       void** out_data) {
  *out_data = nullptr;
  return Answer([&] {
    return device->device->Allocate(kind, bytes, alignment, queue == nullptr ? nullptr : queue->queue.get(), out_data);
  });
}

void Free(tenon_device* device, uint32_t kind, void* data, uint64_t bytes, tenon_queue* queue) {
  if (data == nullptr) return;
  LogFailure(sdk::Guard([&]() -> tenon_status* {
    if (queue == nullptr) {
      device->device->Free(kind, data);
    } else {
      queue->queue->FreeLater(kind, data, bytes);
    }
    return nullptr;
  }));
}

tenon_status* Map(tenon_device* device, uint32_t kind, void* data, uint64_t bytes, void** out_address) {
  *out_address = nullptr;
  return Answer([&]() -> Outcome {
    if (kind != kStagingKind) {
      return Fault(TENON_UNIMPLEMENTED, device->device->name(), ": the host cannot map device memory; copy it");
    }
    if (!device->device->staging().Contains(data, bytes)) {
      return Fault(TENON_INVALID_ARGUMENT, device->device->name(), ": a mapping of ", bytes, " bytes that are no staging memory");
    }
    *out_address = data;
    return {};
  });
}
void Unmap(tenon_device*, uint32_t, void*, uint64_t, void*) {}

// ---- Queues ----

tenon_status* QueueCreate(tenon_device* device, int32_t, tenon_queue** out_queue) {
  *out_queue = nullptr;
  return Answer([&] {
    std::shared_ptr<Queue> queue;
    Outcome outcome = device->device->MakeQueue(&queue);
    if (outcome.ok()) *out_queue = new tenon_queue{std::move(queue)};
    return outcome;
  });
}

void QueueDestroy(tenon_queue* queue) {
  if (queue == nullptr) return;
  queue->queue->Close();
  delete queue;
}

// Which road a copy takes, and what it costs.
void CostOfCopy(const Machine& machine, const Place& source, const Place& target, uint64_t bytes, Order* order) {
  const auto size = static_cast<int64_t>(std::min<uint64_t>(bytes, INT64_MAX));
  if (source.device == nullptr && target.device == nullptr) {
    order->unit = Unit::kHostLink;  // host memory to host memory, by way of the queue's thread
  } else if (source.device == nullptr || target.device == nullptr) {
    order->unit = Unit::kHostLink;
    order->cost = HostCopyCycles(machine, size);
  } else if (source.device != target.device) {
    order->unit = Unit::kInterconnect;
    order->cost = InterconnectCycles(machine, size);
  } else {
    order->unit = Unit::kMemory;
    order->cost = MemoryCycles(machine, size, size);
  }
}

// A copy reaches into another device, which may be lost by the time that it runs.
Outcome CheckAlive(const Place& place) {
  if (place.device == nullptr) return {};
  const Lock lock(place.device->system().mutex);
  return place.device->lost();
}

// device NULL: the host's memory, which is no device's.
Outcome PlaceOf(const Device& here, tenon_device* device, const void* address, uint64_t bytes, const char* what, Place* out) {
  if (device != nullptr) return device->device->Find(address, bytes, what, out);
  *out = {static_cast<char*>(const_cast<void*>(address)), nullptr};
  if (bytes == 0) return {};
  const std::shared_ptr<Device> owner = here.system().Owner(address);
  if (address != nullptr && owner == nullptr) return {};
  return Fault(TENON_INVALID_ARGUMENT, here.name(), ": the ", what, " is said to be host memory and is ",
               address == nullptr ? "NULL" : "memory of " + owner->name());
}

tenon_status* QueueCopy(tenon_queue* queue, const tenon_copy_args* args, const tenon_submission* submission) {
  return Answer([&]() -> Outcome {
    if (args->must_understand != 0) return Fault(TENON_UNIMPLEMENTED, "a copy with a feature that this plugin does not know");
    const Device& device = queue->queue->device();
    Order order = {.what = "copy", .kind = "copy"};
    Place source, target;
    Outcome outcome = PlaceOf(device, args->source_device, args->source, args->bytes, "source of a copy", &source);
    if (outcome.ok()) outcome = PlaceOf(device, args->target_device, args->target, args->bytes, "target of a copy", &target);
    if (outcome.ok()) outcome = OrderOf(queue, *submission, &order);
    if (!outcome.ok()) return outcome;
    CostOfCopy(device.options().machine, source, target, args->bytes, &order);
    return queue->queue->Submit(order, [source = std::move(source), target = std::move(target), bytes = args->bytes]() -> Outcome {
      for (const Place* place : {&source, &target}) {
        if (Outcome alive = CheckAlive(*place); !alive.ok()) return alive;
      }
      if (bytes > 0) std::memmove(target.address, source.address, bytes);
      return {};
    });
  });
}

void Fill(char* target, uint64_t bytes, const char* pattern, uint64_t pattern_bytes) {
  if (bytes == 0) return;
  // The filled part doubles until all is filled.
  uint64_t done = std::min(bytes, pattern_bytes);
  std::memcpy(target, pattern, done);
  while (done < bytes) {
    const uint64_t more = std::min(done, bytes - done);
    std::memcpy(target + done, target, more);
    done += more;
  }
}

tenon_status* QueueFill(tenon_queue* queue, const tenon_fill_args* args, const tenon_submission* submission) {
  return Answer([&]() -> Outcome {
    Device& device = queue->queue->device();
    const uint64_t size = args->pattern_bytes;
    if (args->must_understand != 0) return Fault(TENON_UNIMPLEMENTED, "a fill with a feature that this plugin does not know");
    if (size == 0 || size > 16 || (size & (size - 1)) != 0) {
      return Fault(TENON_INVALID_ARGUMENT, "a pattern of ", size, " bytes; it may have 1, 2, 4, 8 or 16");
    }
    Order order = {.what = "fill", .kind = "fill"};
    Place place;
    Outcome outcome = device.Find(args->target, args->bytes, "target of a fill", &place);
    if (outcome.ok()) outcome = OrderOf(queue, *submission, &order);
    if (!outcome.ok()) return outcome;
    order.unit = Unit::kMemory;
    order.cost = MemoryCycles(device.options().machine, 0, static_cast<int64_t>(args->bytes));
    std::array<char, 16> pattern = {};
    std::memcpy(pattern.data(), args->pattern, size);
    return queue->queue->Submit(order, [at = place.address, bytes = args->bytes, pattern, size] { Fill(at, bytes, pattern.data(), size); });
  });
}

tenon_status* QueueBarrier(tenon_queue* queue, const tenon_submission* submission) {
  return Answer([&] {
    Order order = {.what = "barrier"};
    Outcome outcome = OrderOf(queue, *submission, &order);
    return outcome.ok() ? queue->queue->Submit(order, [] {}) : outcome;
  });
}

tenon_status* QueueHostCall(tenon_queue* queue, tenon_notify_function function, void* argument,
                            const tenon_submission* submission) {
  return Answer([&] {
    Order order = {.what = "host call"};
    Outcome outcome = OrderOf(queue, *submission, &order);
    if (!outcome.ok()) return outcome;
    return queue->queue->Submit(order, [function, argument](const Outcome& before) { function(argument, ToStatus(before)); });
  });
}

// ---- Semaphores ----

tenon_status* SemaphoreCreate(tenon_device* device, uint64_t initial, tenon_semaphore** out_semaphore) {
  *out_semaphore = nullptr;
  return Answer([&] {
    Outcome outcome = device->device->CheckAlive();
    if (!outcome.ok()) return outcome;
    std::unique_ptr<tenon_semaphore> made(new tenon_semaphore{{device->device, initial}});
    const Lock lock(device->device->system().mutex);
    device->device->timelines().insert(&made->timeline);
    *out_semaphore = made.release();
    return outcome;
  });
}

// Changes the timeline under the lock, and calls back whom it concerns without.
template <class Change>
auto WithTimeline(tenon_semaphore* semaphore, Change&& change) {
  // The semaphore may be gone when the lock is free again, and its device with it.
  const std::shared_ptr<System> system = semaphore->timeline.owner().shared_system();
  Notices notices;
  Lock lock(system->mutex);
  auto outcome = change(semaphore->timeline, &notices);
  lock.unlock();
  CallAll(notices);
  return outcome;
}

void SemaphoreDestroy(tenon_semaphore* semaphore) {
  if (semaphore == nullptr) return;
  (void)WithTimeline(semaphore, [](Timeline& timeline, Notices* out) -> Outcome {
    // Who asked to be told is told.
    timeline.Fail(Fault(TENON_CANCELLED, "the semaphore was destroyed at ", timeline.value()), out);
    timeline.owner().timelines().erase(&timeline);
    return {};
  });
  delete semaphore;
}

tenon_status* SemaphoreQuery(tenon_semaphore* semaphore, uint64_t* out_value) {
  return Answer([&] {
    return WithTimeline(semaphore, [&](Timeline& timeline, Notices*) {
      *out_value = timeline.value();
      return timeline.failure();
    });
  });
}

tenon_status* SemaphoreSignal(tenon_semaphore* semaphore, uint64_t value) {
  return Answer([&]() -> Outcome {
    return WithTimeline(semaphore, [&](Timeline& timeline, Notices* out) -> Outcome {
      if (!timeline.failure().ok()) return timeline.failure();
      if (value <= timeline.value()) {
        return Fault(TENON_INVALID_ARGUMENT, "signal of ", value, " on a semaphore that has reached ", timeline.value());
      }
      timeline.Signal(value, 0, {Origin::kHost, 0, 0}, out);
      return {};
    });
  });
}

void SemaphoreFail(tenon_semaphore* semaphore, tenon_status* status) {
  LogFailure(Answer([&] {
    const Outcome why = TakeStatus(status);
    return WithTimeline(semaphore, [&](Timeline& timeline, Notices* out) -> Outcome {
      timeline.Fail(why.ok() ? Fault(TENON_UNKNOWN, "the host failed the timeline without saying why") : why, out);
      return {};
    });
  }));
}

tenon_status* SemaphoreWait(tenon_semaphore* semaphore, uint64_t value, uint64_t deadline_ns) {
  return Answer([&]() -> Outcome {
    Timeline& timeline = semaphore->timeline;
    const std::shared_ptr<System> system = timeline.owner().shared_system();
    const std::chrono::steady_clock::time_point deadline(
        std::chrono::nanoseconds(static_cast<int64_t>(std::min<uint64_t>(deadline_ns, INT64_MAX))));
    Lock lock(system->mutex);
    while (true) {
      const PointState state = timeline.At(value);
      if (state.kind == PointState::kReached) return {};
      if (state.kind == PointState::kFailed) return *state.failure;
      if (std::chrono::steady_clock::now() >= deadline) {
        return Fault(TENON_DEADLINE_EXCEEDED, "a semaphore was to reach ", value, " and is at ", timeline.value());
      }
      timeline.changed.wait_until(lock, deadline);
    }
  });
}

tenon_status* SemaphoreNotify(tenon_semaphore* semaphore, uint64_t value, tenon_notify_function function, void* argument) {
  return Answer([&] {
    return WithTimeline(semaphore, [&](Timeline& timeline, Notices* out) -> Outcome {
      timeline.Notify(value, function, argument, out);
      return {};
    });
  });
}

// ---- The profile ----

template <size_t kSize>
void CopyText(char (&out)[kSize], const std::string& text) {
  const size_t length = std::min(text.size(), kSize - 1);
  std::memcpy(out, text.data(), length);
  out[length] = '\0';
}

std::string DetailOf(const Cycles& cycles) {
  std::string text;
  const auto add = [&](const char* name, int64_t count) {
    if (count != 0) text += sdk::Concat(text.empty() ? "" : ", ", name, " ", count);
  };
  add("matrix", cycles.matrix);
  add("vector", cycles.vector);
  add("load", cycles.load);
  add("stall", cycles.stall);
  return text;
}

tenon_profile_span ToProfile(const Span& span) {
  tenon_profile_span out = {};
  out.number = span.number;
  out.queue = span.queue;
  out.begin_ns = span.begin_ns;
  out.end_ns = span.end_ns;
  out.begin_tick = static_cast<uint64_t>(span.begin);
  out.end_tick = static_cast<uint64_t>(span.end);
  out.waited_ticks = static_cast<uint64_t>(span.waited);
  CopyText(out.name, span.name);
  CopyText(out.kind, span.kind);
  CopyText(out.waited_for, ToText(span.waited_for));
  CopyText(out.detail, DetailOf(span.cycles));
  out.code = span.code;
  return out;
}

void ReadProfile(tenon_device* handle, uint64_t first, tenon_profile_span* out_spans, uint64_t capacity, uint64_t* out_count,
                 uint64_t* out_next) {
  const Device& device = *handle->device;
  const Lock lock(device.system().mutex);
  const uint64_t end = device.next_span();
  first = capacity == 0 ? end : std::clamp(first, device.oldest_span(), end);
  *out_count = std::min(capacity, end - first);
  *out_next = first + *out_count;
  for (uint64_t i = 0; i < *out_count; ++i) out_spans[i] = ToProfile(device.LoggedSpan(first + i));
}
double ProfileClock(tenon_device* device) { return device->device->options().machine.clock; }

constexpr tenon_profile kProfile = {TENON_HEAD(tenon_profile), ReadProfile, ProfileClock, nullptr};

const void* GetExtension(tenon_device*, tenon_span id) {
  return sdk::ToText(id) == TENON_EXTENSION_PROFILE ? &kProfile : nullptr;
}

constexpr tenon_device_driver MakeDriver() {
  tenon_device_driver driver = {};
  driver.struct_size = sizeof(tenon_device_driver);
  driver.device_type = sdk::ToSpan(kDeviceType);
  driver.priority = -100;  // a simulator is never what a node gets unasked
  driver.count = Count;
  driver.open = Open;
  driver.close = Close;
  driver.properties = Properties;
  driver.memory_kind = MemoryKind;
  driver.allocate = Allocate;
  driver.free = Free;
  driver.map = Map;
  driver.unmap = Unmap;
  driver.queue_create = QueueCreate;
  driver.queue_destroy = QueueDestroy;
  driver.queue_copy = QueueCopy;
  driver.queue_fill = QueueFill;
  driver.queue_barrier = QueueBarrier;
  driver.queue_host_call = QueueHostCall;
  driver.semaphore_create = SemaphoreCreate;
  driver.semaphore_destroy = SemaphoreDestroy;
  driver.semaphore_query = SemaphoreQuery;
  driver.semaphore_signal = SemaphoreSignal;
  driver.semaphore_fail = SemaphoreFail;
  driver.semaphore_wait = SemaphoreWait;
  driver.semaphore_notify = SemaphoreNotify;
  driver.get_extension = GetExtension;
  return driver;
}

}  // namespace

constinit const tenon_device_driver kDeviceDriver = MakeDriver();

}  // namespace tenon::tpu_sim
