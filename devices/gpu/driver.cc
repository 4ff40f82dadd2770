// SPDX-License-Identifier: Apache-2.0
// The driver table: checks what comes over the ABI, and turns it into work.
#include "driver.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <unordered_set>
#include <utility>

#include "patience.h"
#include "tenon/ext/draft/capture.h"
#include "tenon/ext/draft/native_handle.h"
#include "tenon/ext/draft/profile.h"

namespace tenon::gpu {
namespace {

using Lock = std::unique_lock<std::mutex>;
using Clock = std::chrono::steady_clock;

std::shared_ptr<System>& SystemOf(tenon_plugin_self* self) { return *reinterpret_cast<std::shared_ptr<System>*>(self); }

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

// The handles that are open.
class Handles {
 public:
  void Add(const tenon_device* device) {
    const std::lock_guard lock(mutex_);
    open_.insert(device);
  }
  void Remove(const tenon_device* device) {
    const std::lock_guard lock(mutex_);
    open_.erase(device);
  }
  bool Has(const tenon_device* device) {
    const std::lock_guard lock(mutex_);
    return open_.contains(device);
  }

 private:
  std::mutex mutex_;
  std::unordered_set<const tenon_device*> open_;
};
Handles& OpenHandles() {
  static auto* const handles = new Handles;  // NOLINT: as long as the library
  return *handles;
}

// Whether the submission's points are of this driver.
Outcome Check(const tenon_queue* queue, const tenon_submission& submission) {
  if (submission.must_understand != 0) return Fault(TENON_UNIMPLEMENTED, "a submission with a feature that this plugin does not know");
  const System* system = &queue->queue->device().system();
  for (uint64_t i = 0; i < submission.wait_count; ++i) {
    const tenon_semaphore* semaphore = submission.waits[i].semaphore;
    if (semaphore == nullptr) return Fault(TENON_INVALID_ARGUMENT, "wait ", i, " has no semaphore");
    if (&semaphore->timeline->device().system() != system) {
      return Fault(TENON_INVALID_ARGUMENT, "wait ", i, " is for a semaphore of another driver");
    }
  }
  if (submission.timeline == nullptr && submission.signal != 0) {
    return Fault(TENON_INVALID_ARGUMENT, "a signal of ", submission.signal, " without a timeline");
  }
  return {};
}

// ---- Devices ----

tenon_status* Count(tenon_plugin_self* self, uint32_t* out_count) {
  *out_count = 0;
  return Answer([&] { return SystemOf(self)->Count(out_count); });
}

tenon_status* Open(tenon_plugin_self* self, uint32_t index, tenon_device** out_device) {
  *out_device = nullptr;
  return Answer([&]() -> Outcome {
    uint32_t count = 0;
    if (Outcome outcome = SystemOf(self)->Count(&count); !outcome.ok()) return outcome;
    if (index >= count) return Fault(TENON_NOT_FOUND, "GPU device ", index, "; there are ", count);
    std::shared_ptr<Device> device;
    if (Outcome outcome = Device::Open(SystemOf(self), index, &device); !outcome.ok()) return outcome;
    *out_device = new tenon_device{std::move(device)};
    OpenHandles().Add(*out_device);
    return {};
  });
}

void Close(tenon_device* device) {
  if (device == nullptr) return;
  OpenHandles().Remove(device);
  LogFailure(sdk::Guard([&]() -> tenon_status* {
    device->device->Close();
    return nullptr;
  }));
  delete device;
}

// Seconds that a copy and a kernel without work take, of the order that such hardware has; for placement alone.
constexpr double kCopySeconds = 8e-6, kLaunchSeconds = 3e-6;
// Where the driver does not say how fast it is; the same.
constexpr double kFlops = 1e13, kBytesPerSecond = 1e12;

tenon_status* Properties(tenon_device* device, tenon_device_properties* out) {
  const CardFacts& facts = device->device->facts();
  out->name = sdk::ToSpan(facts.name);
  out->dl_device_type = facts.dl_device_type;
  out->dl_device_id = facts.number;
  out->synchronous = 0;
  out->memory_kind_count = kKinds;
  out->flops = facts.flops > 0 ? facts.flops : kFlops;
  out->bytes_per_second = facts.bytes_per_second > 0 ? facts.bytes_per_second : kBytesPerSecond;
  out->link_bytes_per_second = facts.link_bytes_per_second;
  out->copy_seconds = kCopySeconds;
  out->launch_seconds = kLaunchSeconds;
  out->compute_queues = static_cast<uint32_t>(device->device->system().options().queues);
  return nullptr;
}

tenon_status* MemoryKind(tenon_device* device, uint32_t index, tenon_memory_kind* out) {
  if (index >= kKinds) return sdk::Failure(TENON_NOT_FOUND, "memory kind ", index, "; there are 0 (device) and 1 (pinned)");
  const bool pinned = index == kPinnedKind;
  out->name = pinned ? sdk::ToSpan("pinned") : sdk::ToSpan("device");
  out->alignment = kDeviceAlignment;
  out->total_bytes = pinned ? 0 : device->device->facts().memory_bytes;
  out->flags = pinned ? TENON_MEMORY_HOST_VISIBLE | TENON_MEMORY_PREFAULTED : 0;
  return nullptr;
}

// ---- Memory ----

tenon_status* Allocate(tenon_device* device, uint32_t kind, uint64_t bytes, uint64_t alignment, tenon_queue* queue, void** out_data) {
  *out_data = nullptr;
  return Answer([&] {
    return device->device->Allocate(kind, bytes, alignment, queue == nullptr ? nullptr : queue->queue.get(), out_data);
  });
}

void Free(tenon_device* device, uint32_t kind, void* data, uint64_t, tenon_queue* queue) {
  if (data == nullptr) return;
  LogFailure(sdk::Guard([&]() -> tenon_status* {
    device->device->Free(kind, data, queue == nullptr ? nullptr : queue->queue.get());
    return nullptr;
  }));
}

tenon_status* Map(tenon_device* device, uint32_t kind, void* data, uint64_t bytes, void** out_address) {
  *out_address = nullptr;
  return Answer([&]() -> Outcome {
    uint32_t found = 0;
    if (kind != kPinnedKind) return Fault(TENON_UNIMPLEMENTED, device->device->name(), ": the host cannot map device memory; copy it");
    if (!device->device->Contains(data, bytes, &found) || found != kPinnedKind) {
      return Fault(TENON_INVALID_ARGUMENT, device->device->name(), ": a mapping of ", bytes, " bytes that are no pinned memory");
    }
    *out_address = data;
    return {};
  });
}
void Unmap(tenon_device*, uint32_t, void*, uint64_t, void*) {}

// ---- Queues ----

tenon_status* QueueCreate(tenon_device* device, int32_t priority, tenon_queue** out_queue) {
  *out_queue = nullptr;
  return Answer([&] {
    std::shared_ptr<Queue> queue;
    Outcome outcome = device->device->MakeQueue(priority, &queue);
    if (outcome.ok()) *out_queue = new tenon_queue{std::move(queue)};
    return outcome;
  });
}

void QueueDestroy(tenon_queue* queue) {
  if (queue == nullptr) return;
  LogFailure(sdk::Guard([&]() -> tenon_status* {
    queue->queue->Close();
    return nullptr;
  }));
  delete queue;
}

// Whose memory the address is in, whether it is said to be the host's or a device's.
Outcome PlaceOf(const Queue& queue, const tenon_device* device, const void* address, uint64_t bytes, const char* what, Queue::Place* out) {
  *out = {static_cast<char*>(const_cast<void*>(address)), device == nullptr ? nullptr : device->device.get(), false};
  if (bytes == 0) return {};
  if (address == nullptr) return Fault(TENON_INVALID_ARGUMENT, queue.device().name(), ": the ", what, " is NULL");
  uint32_t kind = 0;
  if (device == nullptr) {
    out->pinned = queue.device().Contains(address, bytes, &kind) && kind == kPinnedKind;
    if (!out->pinned && queue.device().Contains(address, 1, &kind) && kind == kDeviceKind) {
      return Fault(TENON_INVALID_ARGUMENT, queue.device().name(), ": the ", what, " is said to be host memory and is the device's");
    }
    return {};
  }
  if (!device->device->Contains(address, bytes, &kind)) {
    // Another library's, which was given through DLPack: how far it goes is not known here.
    if (!device->device->Contains(address, 1, &kind) && device->device->card().IsDeviceMemory(address)) return {};
    return Fault(TENON_INVALID_ARGUMENT, device->device->name(), ": the ", what, " of ", bytes, " bytes is not in a living block of its memory");
  }
  if (kind == kPinnedKind) {
    out->device = nullptr;
    out->pinned = true;
  }
  return {};
}

tenon_status* QueueCopy(tenon_queue* queue, const tenon_copy_args* args, const tenon_submission* submission) {
  return Answer([&]() -> Outcome {
    if (args->must_understand != 0) return Fault(TENON_UNIMPLEMENTED, "a copy with a feature that this plugin does not know");
    Queue& q = *queue->queue;
    Queue::Place source, target;
    Outcome outcome = PlaceOf(q, args->source_device, args->source, args->bytes, "source of a copy", &source);
    if (outcome.ok()) outcome = PlaceOf(q, args->target_device, args->target, args->bytes, "target of a copy", &target);
    if (outcome.ok()) outcome = Check(queue, *submission);
    return outcome.ok() ? q.Submit(*submission, "copy", [&] { return q.Copy(target, source, args->bytes); }) : outcome;
  });
}

tenon_status* QueueFill(tenon_queue* queue, const tenon_fill_args* args, const tenon_submission* submission) {
  return Answer([&]() -> Outcome {
    if (args->must_understand != 0) return Fault(TENON_UNIMPLEMENTED, "a fill with a feature that this plugin does not know");
    const uint64_t size = args->pattern_bytes;
    if (size == 0 || size > 16 || (size & (size - 1)) != 0) {
      return Fault(TENON_INVALID_ARGUMENT, "a pattern of ", size, " bytes; it may have 1, 2, 4, 8 or 16");
    }
    Queue& q = *queue->queue;
    uint32_t kind = 0;
    if (args->bytes != 0 && !q.device().Contains(args->target, args->bytes, &kind)) {
      return Fault(TENON_INVALID_ARGUMENT, q.device().name(), ": the target of a fill of ", args->bytes,
                   " bytes is not in a living block of its memory");
    }
    if (Outcome outcome = Check(queue, *submission); !outcome.ok()) return outcome;
    return q.Submit(*submission, "fill", [&] {
      return q.Fill(static_cast<char*>(args->target), args->bytes, static_cast<const char*>(args->pattern), size);
    });
  });
}

tenon_status* QueueBarrier(tenon_queue* queue, const tenon_submission* submission) {
  return Answer([&]() -> Outcome {
    if (Outcome outcome = Check(queue, *submission); !outcome.ok()) return outcome;
    return queue->queue->Submit(*submission, nullptr, [] { return Outcome(); });
  });
}

tenon_status* QueueHostCall(tenon_queue* queue, tenon_notify_function function, void* argument, const tenon_submission* submission) {
  return Answer([&]() -> Outcome {
    if (Outcome outcome = Check(queue, *submission); !outcome.ok()) return outcome;
    return queue->queue->CallHost(*submission, [function, argument](const Outcome& before) { function(argument, ToStatus(before)); });
  });
}

// ---- Semaphores ----

tenon_status* SemaphoreCreate(tenon_device* device, uint64_t initial, tenon_semaphore** out_semaphore) {
  *out_semaphore = nullptr;
  return Answer([&]() -> Outcome {
    if (initial >= kReleased) return Fault(TENON_INVALID_ARGUMENT, "a semaphore may not begin at ", initial);
    auto made = std::make_unique<tenon_semaphore>();
    Outcome outcome = device->device->MakeTimeline(initial, &made->timeline);
    if (outcome.ok()) *out_semaphore = made.release();
    return outcome;
  });
}

std::mutex& MutexOf(const tenon_semaphore* semaphore) { return semaphore->timeline->device().system().mutex; }

// Keeps the timeline's device while the handle goes.
void SemaphoreDestroy(tenon_semaphore* semaphore) {
  if (semaphore == nullptr) return;
  const std::shared_ptr<Device> device = semaphore->timeline->device().shared_from_this();
  {
    const Lock lock(device->system().mutex);
    // Who asked to be told is told.
    semaphore->timeline->Fail(Fault(TENON_CANCELLED, "the semaphore was destroyed at ", semaphore->timeline->value()));
    semaphore->timeline->DropDependencies();
  }
  delete semaphore;
}

tenon_status* SemaphoreQuery(tenon_semaphore* semaphore, uint64_t* out_value) {
  return Answer([&]() -> Outcome {
    const Lock lock(MutexOf(semaphore));
    *out_value = semaphore->timeline->value();
    (void)semaphore->timeline->At(*out_value);
    return semaphore->timeline->failure();
  });
}

tenon_status* SemaphoreSignal(tenon_semaphore* semaphore, uint64_t value) {
  return Answer([&]() -> Outcome {
    const Lock lock(MutexOf(semaphore));
    Timeline& timeline = *semaphore->timeline;
    const uint64_t now = timeline.value();
    if (timeline.At(value) == Timeline::State::kFailed) return timeline.failure();
    if (value <= now || value >= kReleased) {
      return Fault(TENON_INVALID_ARGUMENT, "signal of ", value, " on a semaphore that has reached ", now);
    }
    timeline.Signal(value);
    return {};
  });
}

void SemaphoreFail(tenon_semaphore* semaphore, tenon_status* status) {
  LogFailure(Answer([&]() -> Outcome {
    const Outcome why = TakeStatus(status);
    const std::shared_ptr<Timeline> timeline = semaphore->timeline;
    System& system = timeline->device().system();
    const Lock lock(system.mutex);
    timeline->Fail(why.ok() ? Fault(TENON_UNKNOWN, "the host failed the timeline without saying why") : why);
    // A stream may still signal what it was told to, and put the value back below what others wait for.
    system.watcher.Watch(
        timeline->device().shared_from_this(),
        [weak = std::weak_ptr(timeline)] {
          const auto living = weak.lock();
          if (living != nullptr) living->KeepReleased();
          return living == nullptr || living->word_stays();
        },
        [] {});
    return {};
  }));
}

tenon_status* SemaphoreWait(tenon_semaphore* semaphore, uint64_t value, uint64_t deadline_ns) {
  return Answer([&]() -> Outcome {
    const std::shared_ptr<Timeline> timeline = semaphore->timeline;
    Device& device = timeline->device();
    const Clock::time_point deadline(std::chrono::nanoseconds(static_cast<int64_t>(std::min<uint64_t>(deadline_ns, INT64_MAX))));
    const Clock::time_point begin = Clock::now();
    const auto settle = [&]() -> std::optional<Outcome> {
      const Lock lock(device.system().mutex);
      const Timeline::State state = timeline->At(value);
      if (state == Timeline::State::kFailed) return timeline->failure();
      if (state == Timeline::State::kReached) {
        device.set_usual_wait(Clock::now() - begin);
        return Outcome();
      }
      if (Clock::now() < deadline) return {};
      return Fault(TENON_DEADLINE_EXCEEDED, "point ", value, " of a timeline of ", device.name(), " was not reached in time");
    };
    return WaitFor(device, device.usual_wait(), deadline, [&] { return timeline->word() >= value; }, settle);
  });
}

tenon_status* SemaphoreNotify(tenon_semaphore* semaphore, uint64_t value, tenon_notify_function function, void* argument) {
  return Answer([&]() -> Outcome {
    const std::shared_ptr<Timeline> timeline = semaphore->timeline;
    System& system = timeline->device().system();
    const Lock lock(system.mutex);
    system.watcher.Watch(
        timeline->device().shared_from_this(), [timeline, value] { return timeline->At(value) != Timeline::State::kOpen; },
        [timeline, value, function, argument] {
          Outcome outcome;
          {
            const Lock lock(timeline->device().system().mutex);
            if (timeline->At(value) == Timeline::State::kFailed) outcome = timeline->failure();
          }
          function(argument, ToStatus(outcome));
        });
    return {};
  });
}

// ---- Captured graphs ----

tenon_status* CaptureBegin(tenon_queue* queue, tenon_queue** out_capture) {
  *out_capture = nullptr;
  return Answer([&]() -> Outcome {
    const Queue& parent = *queue->queue;
    if (Outcome alive = parent.device().CheckAlive(); !alive.ok()) return alive;
    auto keeping = std::make_shared<Queue>(parent.device().shared_from_this(), 0, parent.number());
    Outcome outcome = parent.device().Note(keeping->OpenCapture(parent));
    if (outcome.ok()) *out_capture = new tenon_queue{std::move(keeping)};
    return outcome;
  });
}

tenon_status* CaptureEnd(tenon_queue* capture, tenon_captured_graph** out_graph, uint64_t* out_nodes) {
  *out_graph = nullptr;
  *out_nodes = 0;
  return Answer([&]() -> Outcome {
    const std::unique_ptr<tenon_queue> own(capture);
    CapturedGraph graph = nullptr;
    Outcome outcome = own->queue->EndCapture(&graph, out_nodes);
    if (outcome.ok()) *out_graph = new tenon_captured_graph{own->queue->device().shared_from_this(), graph};
    return outcome;
  });
}

tenon_status* CaptureLaunch(tenon_queue* queue, tenon_captured_graph* graph, const tenon_submission* submission) {
  return Answer([&]() -> Outcome {
    if (Outcome outcome = Check(queue, *submission); !outcome.ok()) return outcome;
    Queue& q = *queue->queue;
    if (graph->device.get() != &q.device()) return Fault(TENON_INVALID_ARGUMENT, "a graph that was captured on ", graph->device->name());
    return q.Submit(*submission, "graph", [&] { return q.card().LaunchGraph(graph->graph, q.stream()); });
  });
}

void CaptureDestroy(tenon_captured_graph* graph) {
  if (graph == nullptr) return;
  (void)graph->device->card().Activate();
  graph->device->card().DestroyGraph(graph->graph);
  delete graph;
}

tenon_status* ListMake(tenon_queue* queue, tenon_queue** out_list) {
  *out_list = nullptr;
  return Answer([&]() -> Outcome {
    const Queue& parent = *queue->queue;
    auto list = std::make_shared<Queue>(parent.device().shared_from_this(), 0, parent.number());
    list->OpenList(parent);
    *out_list = new tenon_queue{std::move(list)};
    return {};
  });
}
uint64_t ListSize(tenon_queue* list) { return list->queue->list()->size(); }
tenon_status* ListGive(tenon_queue* list, uint64_t first, uint64_t count, tenon_queue* queue, tenon_semaphore* timeline) {
  return Answer([&]() -> Outcome {
    Queue& q = *queue->queue;
    const Queue::Turn turn(q, timeline == nullptr ? nullptr : timeline->timeline.get());
    if (!turn.outcome().ok() || turn.pointless()) return turn.outcome();
    return q.device().Note(list->queue->list()->Give(first, count, q.card(), q.stream()));
  });
}
void ListClear(tenon_queue* list) { list->queue->list()->Clear(); }

constexpr tenon_graph_capture kGraphCapture = {TENON_HEAD(tenon_graph_capture), CaptureBegin, CaptureEnd, CaptureLaunch, CaptureDestroy,
                                               ListMake, ListSize, ListGive, ListClear};

// ---- Native handles ----

tenon_span NativeVendor(tenon_device*) { return sdk::ToSpan(kVendor.name); }
int32_t NativeOrdinal(tenon_device* device) { return device->device->facts().number; }
void* NativeStream(tenon_queue* queue) { return queue->queue->stream(); }

tenon_status* NativeWaitFor(tenon_queue* queue, void* stream) {
  return Answer([&]() -> Outcome {
    Queue& q = *queue->queue;
    const Queue::Turn turn(q, nullptr);
    return turn.outcome().ok() ? q.device().Note(q.card().WaitForStream(static_cast<Stream>(stream), q.stream())) : turn.outcome();
  });
}

constexpr tenon_native_handle kNativeHandle = {TENON_HEAD(tenon_native_handle), NativeVendor, NativeOrdinal, NativeStream, NativeWaitFor};

// ---- The profile ----

void ReadProfile(tenon_device* device, uint64_t first, tenon_profile_span* out_spans, uint64_t capacity, uint64_t* out_count, uint64_t* out_next) {
  device->device->profile().Read(first, out_spans, capacity, out_count, out_next);
}
double ProfileClock(tenon_device*) { return 0; }
tenon_status* WatchProfile(tenon_device* device, uint32_t on) {
  return Answer([&] { return device->device->Watch(on != 0); });
}

constexpr tenon_profile kProfile = {TENON_HEAD(tenon_profile), ReadProfile, ProfileClock, WatchProfile};

const void* GetExtension(tenon_device*, tenon_span id) {
  if (sdk::ToText(id) == TENON_EXTENSION_PROFILE) return &kProfile;
  if (sdk::ToText(id) == TENON_EXTENSION_GRAPH_CAPTURE) return &kGraphCapture;
  if (sdk::ToText(id) == TENON_EXTENSION_NATIVE_HANDLE) return &kNativeHandle;
  return nullptr;
}

constexpr tenon_device_driver MakeDriver() {
  tenon_device_driver driver = {};
  driver.struct_size = sizeof(tenon_device_driver);
  driver.device_type = sdk::ToSpan(kDeviceType);
  driver.priority = 100;  // before the CPU, where both can run a node
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

Device* OwnDevice(const tenon_device* device) {
  return device != nullptr && OpenHandles().Has(device) ? device->device.get() : nullptr;
}

tenon_status* LoadPlugin(const tenon_load_args* args, const tenon_option_declaration* declarations, uint64_t declaration_count,
                         tenon_plugin_self** out_self) {
  return Answer([&]() -> Outcome {
    Options options;
    if (Outcome outcome = ParseOptions(*args, declarations, declaration_count, &options); !outcome.ok()) return outcome;
    *out_self = reinterpret_cast<tenon_plugin_self*>(new std::shared_ptr<System>(std::make_shared<System>(std::move(options))));
    return {};
  });
}

void UnloadPlugin(tenon_plugin_self* self) {
  auto* const system = reinterpret_cast<std::shared_ptr<System>*>(self);
  (*system)->watcher.Stop();
  delete system;
}

}  // namespace tenon::gpu
