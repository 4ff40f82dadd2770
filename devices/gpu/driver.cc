// SPDX-License-Identifier: Apache-2.0
// The driver: turns what comes over the ABI into work.
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
using sdk::Answer;

// The devices that are open.
class OpenDevices {
 public:
  void Add(const Device* device) {
    const std::lock_guard lock(mutex_);
    open_.insert(device);
  }
  void Remove(const Device* device) {
    const std::lock_guard lock(mutex_);
    open_.erase(device);
  }
  bool Has(const Device* device) {
    const std::lock_guard lock(mutex_);
    return open_.contains(device);
  }

 private:
  std::mutex mutex_;
  std::unordered_set<const Device*> open_;
};
OpenDevices& Opened() {
  static auto* const devices = new OpenDevices;  // NOLINT: as long as the library
  return *devices;
}

// Seconds that a copy and a kernel without work take, of the order that such hardware has; for placement alone.
constexpr double kCopySeconds = 8e-6, kLaunchSeconds = 3e-6;
// Where the driver does not say how fast it is; the same.
constexpr double kFlops = 1e13, kBytesPerSecond = 1e12;

std::mutex& MutexOf(const Timeline& timeline) { return timeline.device().system().mutex; }

// ---- Captured graphs ----

tenon_status* CaptureBegin(tenon_queue* queue, tenon_queue** out_capture) {
  *out_capture = nullptr;
  return Answer([&]() -> Outcome {
    Queue& parent = *Queue::Of(queue);
    if (Outcome alive = parent.device().CheckAlive(); !alive.ok()) return alive;
    auto keeping = std::make_shared<Queue>(parent.device().shared_from_this(), 0, parent.number());
    Outcome outcome = parent.device().Note(keeping->OpenCapture(parent));
    if (outcome.ok()) *out_capture = Queue::Give(std::move(keeping));
    return outcome;
  });
}

tenon_status* CaptureEnd(tenon_queue* capture, tenon_captured_graph** out_graph, uint64_t* out_nodes) {
  *out_graph = nullptr;
  *out_nodes = 0;
  return Answer([&]() -> Outcome {
    const std::shared_ptr<Queue> own = Queue::TakeBack(capture);
    CapturedGraph graph = nullptr;
    Outcome outcome = own->EndCapture(&graph, out_nodes);
    if (outcome.ok()) *out_graph = new tenon_captured_graph{own->device().shared_from_this(), graph, own->kept()};
    return outcome;
  });
}

tenon_status* CaptureLaunch(tenon_queue* queue, tenon_captured_graph* graph, const tenon_submission* submission) {
  return Answer([&]() -> Outcome {
    Queue& q = *Queue::Of(queue);
    tenon_submission room;
    if (tenon_status* refused = sdk::TakeSubmission<Handles>(q, &submission, &room)) return TakeStatus(refused);
    if (graph->device.get() != &q.device())
      return Fault(TENON_INVALID_ARGUMENT, "a graph that was captured on ", graph->device->name());
    for (const auto& kept : graph->kept) ++kept->launches;
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
    const Queue& parent = *Queue::Of(queue);
    auto list = std::make_shared<Queue>(parent.device().shared_from_this(), 0, parent.number());
    list->OpenList(parent);
    *out_list = Queue::Give(std::move(list));
    return {};
  });
}
uint64_t ListSize(tenon_queue* list) { return Queue::Of(list)->list()->size(); }
tenon_status* ListGive(tenon_queue* list, uint64_t first, uint64_t count, tenon_queue* queue,
                       tenon_semaphore* timeline) {
  return Answer([&]() -> Outcome {
    Queue& q = *Queue::Of(queue);
    const Queue::Turn turn(q, Timeline::Of(timeline), true);
    if (!turn.outcome().ok() || turn.pointless()) return turn.outcome();
    return q.device().Note(q.GiveListed(*Queue::Of(list)->list(), first, count));
  });
}
void ListClear(tenon_queue* list) { Queue::Of(list)->list()->Clear(); }

constexpr tenon_graph_capture kGraphCapture = {TENON_HEAD(tenon_graph_capture),
                                               CaptureBegin,
                                               CaptureEnd,
                                               CaptureLaunch,
                                               CaptureDestroy,
                                               ListMake,
                                               ListSize,
                                               ListGive,
                                               ListClear};

// ---- Native handles ----

tenon_span NativeVendor(tenon_device*) { return sdk::ToSpan(kVendor.name); }
int32_t NativeOrdinal(tenon_device* device) { return Device::Of(device)->facts().number; }
void* NativeStream(tenon_queue* queue) {
  Queue& q = *Queue::Of(queue);
  const Queue::Turn turn(q, nullptr);  // what a capture has still to be given comes before what others do on the stream
  return q.stream();
}

tenon_status* NativeWaitFor(tenon_queue* queue, void* stream) {
  return Answer([&]() -> Outcome {
    Queue& q = *Queue::Of(queue);
    const Queue::Turn turn(q, nullptr);
    return turn.outcome().ok() ? q.device().Note(q.card().WaitForStream(static_cast<Stream>(stream), q.stream()))
                               : turn.outcome();
  });
}

constexpr tenon_native_handle kNativeHandle = {TENON_HEAD(tenon_native_handle), NativeVendor, NativeOrdinal,
                                               NativeStream, NativeWaitFor};

// ---- The profile ----

void ReadProfile(tenon_device* device, uint64_t first, tenon_profile_span* out_spans, uint64_t capacity,
                 uint64_t* out_count, uint64_t* out_next) {
  Device::Of(device)->profile().Read(first, out_spans, capacity, out_count, out_next);
}
double ProfileClock(tenon_device*) { return 0; }
tenon_status* WatchProfile(tenon_device* device, uint32_t on) {
  return Answer([&] { return Device::Of(device)->Watch(on != 0); });
}

constexpr tenon_profile kProfile = {TENON_HEAD(tenon_profile), ReadProfile, ProfileClock, WatchProfile};

// What stands behind the table: tenon/sdk/device/device.h says of each.
struct Driver : Handles {
  static constexpr tenon_span kDeviceType = sdk::ToSpan(gpu::kDeviceType);
  static constexpr int32_t kPriority = 100;  // before the CPU, where both can run a node
  static constexpr std::string_view kMemoryKinds[kKinds] = {"device", "pinned"};
  static constexpr uint64_t kMostAlignment = gpu::kMostAlignment;
  using Place = Queue::Place;

  // ---- Devices ----

  static Outcome Count(tenon_plugin_self* self, uint32_t* out_count) { return SystemOf(self)->Count(out_count); }
  static Outcome Open(tenon_plugin_self* self, uint32_t index, std::shared_ptr<Device>* out_device) {
    uint32_t count = 0;
    if (Outcome outcome = SystemOf(self)->Count(&count); !outcome.ok()) return outcome;
    if (index >= count) return Fault(TENON_NOT_FOUND, "GPU device ", index, "; there are ", count);
    Outcome outcome = Device::Open(SystemOf(self), index, out_device);
    if (outcome.ok()) Opened().Add(out_device->get());
    return outcome;
  }
  static void Close(Device& device) {
    Opened().Remove(&device);
    device.Close();
  }

  static void Properties(const Device& device, tenon_device_properties* out) {
    const CardFacts& facts = device.facts();
    out->name = sdk::ToSpan(facts.name);
    out->dl_device_type = facts.dl_device_type;
    out->dl_device_id = facts.number;
    out->flops = facts.flops > 0 ? facts.flops : kFlops;
    out->bytes_per_second = facts.bytes_per_second > 0 ? facts.bytes_per_second : kBytesPerSecond;
    out->link_bytes_per_second = facts.link_bytes_per_second;
    out->copy_seconds = kCopySeconds;
    out->launch_seconds = kLaunchSeconds;
    out->compute_queues = static_cast<uint32_t>(device.system().options().queues);
  }
  static void MemoryKind(const Device& device, uint32_t kind, tenon_memory_kind* out) {
    const bool pinned = kind == kPinnedKind;
    out->alignment = kDeviceAlignment;
    out->total_bytes = pinned ? 0 : device.facts().memory_bytes;
    out->flags = pinned ? TENON_MEMORY_HOST_VISIBLE | TENON_MEMORY_PREFAULTED : 0;
  }
  static const void* Extension(const Device&, std::string_view id) {
    if (id == TENON_EXTENSION_PROFILE) return &kProfile;
    if (id == TENON_EXTENSION_GRAPH_CAPTURE) return &kGraphCapture;
    if (id == TENON_EXTENSION_NATIVE_HANDLE) return &kNativeHandle;
    return nullptr;
  }

  // ---- Memory ----

  static Outcome Allocate(Device& device, uint32_t kind, uint64_t bytes, uint64_t alignment, Queue* queue,
                          sdk::Memory* out) {
    return device.Allocate(kind, bytes, alignment, queue, &out->handle);
  }
  static void Free(Device& device, uint32_t kind, sdk::Memory memory, uint64_t, Queue* queue) {
    device.Free(kind, sdk::AddressOf(memory), queue);
  }
  static Outcome Map(const Device& device, uint32_t kind, sdk::Memory memory, uint64_t bytes, void** out_address) {
    uint32_t found = 0;
    if (kind != kPinnedKind)
      return Fault(TENON_UNIMPLEMENTED, device.name(), ": the host cannot map device memory; copy it");
    if (!device.Contains(sdk::AddressOf(memory), bytes, &found) || found != kPinnedKind) {
      return Fault(TENON_INVALID_ARGUMENT, device.name(), ": a mapping of ", bytes, " bytes that are no pinned memory");
    }
    *out_address = sdk::AddressOf(memory);
    return {};
  }
  static bool Find(Device& device, sdk::Memory memory, uint64_t bytes, Place* out) {
    char* const address = sdk::AddressOf(memory);
    uint32_t kind = 0;
    if (device.Contains(address, bytes, &kind)) {
      const bool pinned = kind == kPinnedKind;
      *out = {address, pinned ? nullptr : &device, pinned};
      return true;
    }
    *out = {address, &device, false};
    // Another library's, which was given through DLPack: how far it goes is not known here.
    return !device.Contains(address, 1, &kind) && device.card().IsDeviceMemory(address);
  }
  static std::string FindHost(const Queue& queue, sdk::Memory memory, uint64_t bytes, Place* out) {
    const Device& device = queue.device();
    char* const address = sdk::AddressOf(memory);
    uint32_t kind = 0;
    const bool pinned = device.Contains(address, bytes, &kind) && kind == kPinnedKind;
    *out = {address, nullptr, pinned};
    return !pinned && device.Contains(address, 1, &kind) && kind == kDeviceKind ? "the device's" : "";
  }

  // ---- Queues ----

  static Outcome MakeQueue(Device& device, int32_t priority, std::shared_ptr<Queue>* out_queue) {
    return device.MakeQueue(priority, out_queue);
  }
  static void CloseQueue(Queue& queue) { queue.Close(); }

  static Outcome Copy(Queue& queue, const Place& target, const Place& source, uint64_t bytes,
                      const tenon_submission& submission) {
    return queue.Submit(submission, "copy", [&] { return queue.Copy(target, source, bytes); });
  }
  static Outcome Fill(Queue& queue, const Place& target, uint64_t bytes, std::span<const char> pattern,
                      const tenon_submission& submission) {
    return queue.Submit(submission, "fill",
                        [&] { return queue.Fill(target.address, bytes, pattern.data(), pattern.size()); });
  }
  static Outcome Barrier(Queue& queue, const tenon_submission& submission) {
    return queue.Submit(submission, nullptr, [] { return Outcome(); });
  }
  static Outcome CallHost(Queue& queue, sdk::HostCall call, const tenon_submission& submission) {
    return queue.CallHost(submission, call);
  }

  // ---- Timelines ----

  static Outcome MakeTimeline(Device& device, uint64_t initial, std::shared_ptr<Timeline>* out_timeline) {
    if (initial >= kReleased) return Fault(TENON_INVALID_ARGUMENT, "a semaphore may not begin at ", initial);
    return device.MakeTimeline(initial, out_timeline);
  }
  static void CloseTimeline(Timeline& timeline) {
    const Lock lock(MutexOf(timeline));
    timeline.Fail(sdk::DestroyedAt(timeline.value()));
    timeline.DropDependencies();
  }
  static Outcome Query(Timeline& timeline, uint64_t* out_value) {
    const Lock lock(MutexOf(timeline));
    *out_value = timeline.value();
    (void)timeline.At(*out_value);
    return timeline.failure();
  }
  static Outcome Signal(Timeline& timeline, uint64_t value) {
    const Lock lock(MutexOf(timeline));
    const uint64_t now = timeline.value();
    if (timeline.At(value) == Timeline::State::kFailed) return timeline.failure();
    if (value <= now || value >= kReleased) return sdk::NotAbove(now, value);
    timeline.Signal(value);
    return {};
  }
  static void Fail(Timeline& failed, const Outcome& why) {
    const std::shared_ptr<Timeline> timeline = failed.shared_from_this();
    System& system = timeline->device().system();
    const Lock lock(system.mutex);
    timeline->Fail(why);
    // A stream may still signal what it was told to, and put the value back below what others wait for.
    system.watcher.Watch(
        timeline->device().shared_from_this(),
        [weak = std::weak_ptr(timeline)] {
          const auto living = weak.lock();
          if (living != nullptr) living->KeepReleased();
          return living == nullptr || living->word_stays();
        },
        [] {});
  }
  static Outcome Wait(Timeline& asked, uint64_t value, sdk::Deadline deadline) {
    const std::shared_ptr<Timeline> timeline = asked.shared_from_this();
    Device& device = timeline->device();
    const Clock::time_point begin = Clock::now();
    const auto settle = [&](bool overslept) -> std::optional<Outcome> {
      const Lock lock(device.system().mutex);
      const Timeline::State state = timeline->At(value);
      if (state == Timeline::State::kFailed) return timeline->failure();
      if (state == Timeline::State::kReached) {
        const Clock::duration took = Clock::now() - begin;
        timeline->set_usual_wait(overslept ? took - took / 4 : took);
        return Outcome();
      }
      if (Clock::now() < deadline) return {};
      return Fault(TENON_DEADLINE_EXCEEDED, "point ", value, " of a timeline of ", device.name(),
                   " was not reached in time");
    };
    return WaitFor(device, timeline->usual_wait(), deadline, [&] { return timeline->word() >= value; }, settle);
  }
  static Outcome Notify(Timeline& asked, uint64_t value, sdk::HostCall call) {
    const std::shared_ptr<Timeline> timeline = asked.shared_from_this();
    System& system = timeline->device().system();
    const Lock lock(system.mutex);
    system.watcher.Watch(
        timeline->device().shared_from_this(),
        [timeline, value] { return timeline->At(value) != Timeline::State::kOpen; },
        [timeline, value, call] {
          Outcome outcome;
          {
            const Lock lock(timeline->device().system().mutex);
            if (timeline->At(value) == Timeline::State::kFailed) outcome = timeline->failure();
          }
          call(outcome);
        });
    return {};
  }
};

}  // namespace

constinit const tenon_device_driver kDeviceDriver = sdk::kDeviceTable<Driver>;

Device* OwnDevice(const tenon_device* device) {
  Device* const own = Device::Of(const_cast<tenon_device*>(device));
  return own != nullptr && Opened().Has(own) ? own : nullptr;
}

tenon_status* LoadPlugin(const tenon_load_args* args, const tenon_option_declaration* declarations,
                         uint64_t declaration_count, tenon_plugin_self** out_self) {
  return Answer([&]() -> Outcome {
    Options options;
    if (Outcome outcome = ParseOptions(*args, declarations, declaration_count, &options); !outcome.ok()) return outcome;
    *out_self =
        reinterpret_cast<tenon_plugin_self*>(new std::shared_ptr<System>(std::make_shared<System>(std::move(options))));
    return {};
  });
}

void UnloadPlugin(tenon_plugin_self* self) {
  auto* const system = reinterpret_cast<std::shared_ptr<System>*>(self);
  (*system)->watcher.Stop();
  delete system;
}

}  // namespace tenon::gpu
