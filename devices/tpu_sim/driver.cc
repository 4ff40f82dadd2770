// SPDX-License-Identifier: Apache-2.0
// The driver table: checks what comes over the ABI, and turns it into work.
#include "driver.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string_view>
#include <utility>

namespace tenon::tpu_sim {
namespace {

using Lock = std::unique_lock<std::mutex>;

std::shared_ptr<System>& SystemOf(tenon_plugin_self* self) { return *reinterpret_cast<std::shared_ptr<System>*>(self); }

// Runs function(), which gives an Outcome; nothing is thrown on.
template <class Function>
tenon_status* Answer(Function&& function) {
  return sdk::Guard([&] { return ToStatus(function()); });
}

Outcome PointsOf(const tenon_timeline_point* points, uint64_t count, const char* what, std::vector<Point>* out) {
  for (uint64_t i = 0; i < count; ++i) {
    if (points[i].semaphore == nullptr) return Fault(TENON_INVALID_ARGUMENT, what, " ", i, " has no semaphore");
    out->push_back({points[i].semaphore->timeline, points[i].value});
  }
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
  tenon_status* failed = sdk::Guard([&]() -> tenon_status* {
    if (queue == nullptr) {
      device->device->Free(kind, data);
    } else {
      queue->queue->FreeLater(kind, data, bytes);
    }
    return nullptr;
  });
  if (failed == nullptr) return;
  tenon_plugin_host->log(TENON_LOG_ERROR, tenon_plugin_host->status_message(failed));
  tenon_plugin_host->status_release(failed);
}

tenon_status* Map(tenon_device* device, uint32_t kind, void* data, uint64_t bytes, void** out_address) {
  *out_address = nullptr;
  return Answer([&]() -> Outcome {
    if (kind != kStagingKind) {
      return Fault(TENON_UNIMPLEMENTED, device->device->name(), ": the host cannot map device memory; copy it");
    }
    Place place;
    Outcome outcome = device->device->Find(kind, data, bytes, "mapping", &place);
    if (outcome.ok()) *out_address = place.address;
    return outcome;
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
void CostOfCopy(const Machine& machine, const Place& source, const Place& target, uint64_t bytes, Work* work) {
  const auto size = static_cast<int64_t>(std::min<uint64_t>(bytes, INT64_MAX));
  if (source.device == nullptr && target.device == nullptr) {
    work->unit = Unit::kHostLink;  // host memory to host memory, by way of the queue's thread
  } else if (source.device == nullptr || target.device == nullptr) {
    work->unit = Unit::kHostLink;
    work->cost = HostCopyCycles(machine, size);
  } else if (source.device != target.device) {
    work->unit = Unit::kInterconnect;
    work->cost = InterconnectCycles(machine, size);
  } else {
    work->unit = Unit::kMemory;
    work->cost = MemoryCycles(machine, size, size);
  }
}

// A copy reaches into another device, which may be lost by the time that it runs.
Outcome CheckAlive(const Place& place) {
  if (place.device == nullptr) return {};
  const Lock lock(place.device->system().mutex);
  return place.device->lost();
}

tenon_status* QueueCopy(tenon_queue* queue, const tenon_copy_args* args) {
  return Answer([&]() -> Outcome {
    if (args->must_understand != 0) return Fault(TENON_UNIMPLEMENTED, "a copy with a feature that this plugin does not know");
    const Device& device = queue->queue->device();
    Work work;
    work.name = "copy";
    Place source, target;
    Outcome outcome = device.Find(args->source_kind, args->source, args->bytes, "source of a copy", &source);
    if (outcome.ok()) outcome = device.Find(args->target_kind, args->target, args->bytes, "target of a copy", &target);
    if (outcome.ok()) outcome = PointsOf(args->waits, args->wait_count, "wait", &work.waits);
    if (outcome.ok()) outcome = PointsOf(args->signals, args->signal_count, "signal", &work.signals);
    if (!outcome.ok()) return outcome;
    CostOfCopy(device.options().machine, source, target, args->bytes, &work);
    work.run = [source, target, bytes = args->bytes]() -> Outcome {
      for (const Place* place : {&source, &target}) {
        if (Outcome alive = CheckAlive(*place); !alive.ok()) return alive;
      }
      if (bytes > 0) std::memmove(target.address, source.address, bytes);
      return {};
    };
    return queue->queue->Submit(std::move(work));
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

tenon_status* QueueFill(tenon_queue* queue, void* target, uint32_t kind, uint64_t bytes, const void* pattern,
                        uint64_t pattern_bytes, const tenon_timeline_point* signals, uint64_t signal_count) {
  return Answer([&]() -> Outcome {
    const Device& device = queue->queue->device();
    if (pattern_bytes == 0 || pattern_bytes > 16 || (pattern_bytes & (pattern_bytes - 1)) != 0) {
      return Fault(TENON_INVALID_ARGUMENT, "a pattern of ", pattern_bytes, " bytes; it may have 1, 2, 4, 8 or 16");
    }
    Work work;
    work.name = "fill";
    Place place;
    Outcome outcome = device.Find(kind, target, bytes, "target of a fill", &place);
    if (outcome.ok()) outcome = PointsOf(signals, signal_count, "signal", &work.signals);
    if (!outcome.ok()) return outcome;
    CostOfCopy(device.options().machine, place, place, bytes, &work);
    if (place.device != nullptr) work.cost = MemoryCycles(device.options().machine, 0, static_cast<int64_t>(bytes));
    std::array<char, 16> copy = {};
    std::memcpy(copy.data(), pattern, pattern_bytes);
    work.run = [place, bytes, copy, pattern_bytes]() -> Outcome {
      if (Outcome alive = CheckAlive(place); !alive.ok()) return alive;
      Fill(place.address, bytes, copy.data(), pattern_bytes);
      return {};
    };
    return queue->queue->Submit(std::move(work));
  });
}

tenon_status* QueueBarrier(tenon_queue* queue, const tenon_timeline_point* waits, uint64_t wait_count,
                           const tenon_timeline_point* signals, uint64_t signal_count) {
  return Answer([&] {
    Work work;
    work.name = "barrier";
    Outcome outcome = PointsOf(waits, wait_count, "wait", &work.waits);
    if (outcome.ok()) outcome = PointsOf(signals, signal_count, "signal", &work.signals);
    return outcome.ok() ? queue->queue->Submit(std::move(work)) : outcome;
  });
}

tenon_status* QueueHostCall(tenon_queue* queue, void (*function)(void* argument, tenon_status* status), void* argument) {
  return Answer([&] {
    Work work;
    work.name = "host call";
    work.always = [function, argument](const Outcome& outcome) { function(argument, ToStatus(outcome)); };
    return queue->queue->Submit(std::move(work));
  });
}

// ---- Semaphores ----

tenon_status* SemaphoreCreate(tenon_device* device, uint64_t initial, tenon_semaphore** out_semaphore) {
  *out_semaphore = nullptr;
  return Answer([&] {
    std::shared_ptr<Timeline> timeline;
    Outcome outcome = device->device->MakeTimeline(initial, &timeline);
    if (outcome.ok()) *out_semaphore = new tenon_semaphore{std::move(timeline), device->device->shared_system()};
    return outcome;
  });
}

void SemaphoreDestroy(tenon_semaphore* semaphore) {
  if (semaphore == nullptr) return;
  {
    const Lock lock(semaphore->system->mutex);
    semaphore->timeline->abandoned = true;
    semaphore->timeline->Wake();
  }
  delete semaphore;
}

tenon_status* SemaphoreQuery(tenon_semaphore* semaphore, uint64_t* out_value) {
  return Answer([&] {
    const Lock lock(semaphore->system->mutex);
    *out_value = semaphore->timeline->value();
    return semaphore->timeline->At(*out_value).outcome;
  });
}

tenon_status* SemaphoreSignal(tenon_semaphore* semaphore, uint64_t value) {
  return Answer([&]() -> Outcome {
    const Lock lock(semaphore->system->mutex);
    Timeline& timeline = *semaphore->timeline;
    if (Outcome lost = timeline.OwnerLost(); !lost.ok()) return lost;
    if (value <= timeline.value()) {
      return Fault(TENON_INVALID_ARGUMENT, "signal of ", value, " on a semaphore that has reached ", timeline.value());
    }
    timeline.Signal(value, 0, "the host");
    return {};
  });
}

tenon_status* SemaphoreWait(tenon_semaphore* semaphore, uint64_t value, uint64_t deadline_ns) {
  return Answer([&]() -> Outcome {
    // Both live until this call is done, whatever happens to the handle.
    const std::shared_ptr<System> system = semaphore->system;
    const std::shared_ptr<Timeline> timeline = semaphore->timeline;
    const std::chrono::steady_clock::time_point deadline(
        std::chrono::nanoseconds(static_cast<int64_t>(std::min<uint64_t>(deadline_ns, INT64_MAX))));
    Lock lock(system->mutex);
    while (true) {
      PointState state = timeline->At(value);
      if (state.kind == PointState::kReached) return {};
      if (state.kind == PointState::kPoisoned) return std::move(state.outcome);
      if (timeline->hopeless()) return Fault(TENON_CANCELLED, "the semaphore was destroyed at ", timeline->value());
      if (std::chrono::steady_clock::now() >= deadline) {
        return Fault(TENON_DEADLINE_EXCEEDED, "a semaphore was to reach ", value, " and is at ", timeline->value());
      }
      timeline->changed.wait_until(lock, deadline);
    }
  });
}

// ---- The log ----

void ReadLog(tenon_device* device, uint64_t first, tenon_tpu_sim_span* out_spans, uint64_t capacity, uint64_t* out_count,
             uint64_t* out_next) {
  const Lock lock(device->device->system().mutex);
  device->device->ReadLog(first, out_spans, capacity, out_count, out_next);
}
double LogClock(tenon_device* device) { return device->device->options().machine.clock; }

constexpr tenon_tpu_sim_log kLog = {TENON_HEAD(tenon_tpu_sim_log), ReadLog, LogClock};

const void* GetExtension(tenon_device*, tenon_span id) {
  return sdk::ToText(id) == TENON_TPU_SIM_LOG ? &kLog : nullptr;
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
  driver.semaphore_wait = SemaphoreWait;
  driver.get_extension = GetExtension;
  return driver;
}

}  // namespace

constinit const tenon_device_driver kDeviceDriver = MakeDriver();

}  // namespace tenon::tpu_sim
