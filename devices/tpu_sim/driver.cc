// SPDX-License-Identifier: Apache-2.0
// The driver: turns what comes over the ABI into work.
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

// The order of a submission.
Order OrderOf(const char* what, const char* kind, const tenon_submission& submission) {
  Order order = {.what = what, .kind = kind};
  order.label = submission.label;
  order.timeline = Timeline::Of(submission.timeline);
  order.signal = submission.signal;
  order.waits = submission.waits;
  order.wait_count = submission.wait_count;
  return order;
}

// Which road a copy takes, and what it costs.
void CostOfCopy(const Machine& machine, const Place& source, const Place& target, uint64_t bytes, Order* order) {
  const auto size = static_cast<int64_t>(std::min<uint64_t>(bytes, INT64_MAX));
  if (source.device == nullptr && target.device == nullptr) {
    order->unit = Unit::kFromHost;  // host memory to host memory, by way of the queue's thread
  } else if (source.device == nullptr || target.device == nullptr) {
    order->unit = source.device == nullptr ? Unit::kFromHost : Unit::kToHost;
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

void Repeat(char* target, uint64_t bytes, const char* pattern, uint64_t pattern_bytes) {
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

// Changes the timeline under the lock, and calls back whom it concerns without.
template <class Change>
Outcome WithTimeline(const Timeline& timeline, Change&& change) {
  // The timeline may be gone when the lock is free again, and its device with it.
  const std::shared_ptr<System> system = timeline.owner().shared_system();
  Notices notices;
  Lock lock(system->mutex);
  Outcome outcome = change(&notices);
  lock.unlock();
  CallAll(notices);
  return outcome;
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

void ReadProfile(tenon_device* handle, uint64_t first, tenon_profile_span* out_spans, uint64_t capacity,
                 uint64_t* out_count, uint64_t* out_next) {
  const Device& device = *Device::Of(handle);
  const Lock lock(device.system().mutex);
  device.system().clock.Settle();
  const DeviceTime& time = *device.time();
  const uint64_t end = time.next_span();
  first = capacity == 0 ? end : std::clamp(first, time.oldest_span(), end);
  *out_count = std::min(capacity, end - first);
  *out_next = first + *out_count;
  for (uint64_t i = 0; i < *out_count; ++i) out_spans[i] = ToProfile(time.LoggedSpan(first + i));
}
double ProfileClock(tenon_device* device) { return Device::Of(device)->options().machine.clock; }

constexpr tenon_profile kProfile = {TENON_HEAD(tenon_profile), ReadProfile, ProfileClock, nullptr};

// What stands behind the table: tenon/sdk/device/device.h says of each.
struct Driver {
  static constexpr tenon_span kDeviceType = sdk::ToSpan(tpu_sim::kDeviceType);
  static constexpr int32_t kPriority = -100;  // a simulator is never what a node gets unasked
  static constexpr std::string_view kMemoryKinds[] = {"device", "staging"};
  static constexpr uint64_t kMostAlignment = tpu_sim::kMostAlignment;
  using Device = tpu_sim::Device;
  using Queue = tpu_sim::Queue;
  using Timeline = tpu_sim::Timeline;
  using Place = tpu_sim::Place;

  // ---- Devices ----

  static Outcome Count(tenon_plugin_self* self, uint32_t* out_count) {
    *out_count = static_cast<uint32_t>(SystemOf(self)->options().devices);
    if (*out_count != 0) return {};
    return Fault(TENON_NOT_FOUND, "no simulated device was asked for: set the option tenon.tpu_sim.devices");
  }
  static Outcome Open(tenon_plugin_self* self, uint32_t index, std::shared_ptr<Device>* out_device) {
    const std::shared_ptr<System>& system = SystemOf(self);
    if (index >= system->options().devices) {
      return Fault(TENON_NOT_FOUND, "TPU device ", index, "; there are ", system->options().devices,
                   " (option devices)");
    }
    *out_device = std::make_shared<Device>(system, index);
    return (*out_device)->Open();
  }
  static void Close(Device& device) { device.Close(); }

  static void Properties(const Device& device, tenon_device_properties* out) {
    const Options& options = device.options();
    const bool exact = options.precision != Precision::kBfloat16;
    out->name = sdk::ToSpan("Simulated TPU-style accelerator");
    out->dl_device_type = 12;  // kDLExtDev: DLPack has no number for a TPU
    out->dl_device_id = static_cast<int32_t>(device.index());
    out->flops = PeakOperations(options.machine) / (exact ? static_cast<double>(kFloatPasses) : 1.0);
    out->bytes_per_second = options.machine.memory_bandwidth;
    out->link_bytes_per_second = options.machine.host_bandwidth;
    out->peer_bytes_per_second = options.machine.interconnect_bandwidth;
    out->copy_seconds = static_cast<double>(options.machine.transfer_latency) / options.machine.clock;
    out->launch_seconds = static_cast<double>(options.launch_cycles) / options.machine.clock;
    out->compute_queues = static_cast<uint32_t>(options.cores);
  }
  static void MemoryKind(const Device& device, uint32_t kind, tenon_memory_kind* out) {
    const bool staging = kind == kStagingKind;
    out->alignment = kAlignment;
    out->total_bytes = static_cast<uint64_t>(staging ? device.options().staging_bytes : device.options().memory_bytes);
    out->flags = staging ? TENON_MEMORY_HOST_VISIBLE : 0;
  }
  static const void* Extension(const Device&, std::string_view id) {
    return id == TENON_EXTENSION_PROFILE ? &kProfile : nullptr;
  }

  // ---- Memory ----

  static Outcome Allocate(Device& device, uint32_t kind, uint64_t bytes, uint64_t alignment, Queue* queue,
                          sdk::Memory* out) {
    return device.Allocate(kind, bytes, alignment, queue, &out->handle);
  }
  static void Free(Device& device, uint32_t kind, sdk::Memory memory, uint64_t bytes, Queue* queue) {
    queue == nullptr ? device.Free(kind, sdk::AddressOf(memory))
                     : queue->FreeLater(kind, sdk::AddressOf(memory), bytes);
  }
  static Outcome Map(Device& device, uint32_t kind, sdk::Memory memory, uint64_t bytes, void** out_address) {
    if (kind != kStagingKind)
      return Fault(TENON_UNIMPLEMENTED, device.name(), ": the host cannot map device memory; copy it");
    if (!device.staging().Contains(sdk::AddressOf(memory), bytes)) {
      return Fault(TENON_INVALID_ARGUMENT, device.name(), ": a mapping of ", bytes,
                   " bytes that are no staging memory");
    }
    *out_address = sdk::AddressOf(memory);
    return {};
  }
  static bool Find(Device& device, sdk::Memory memory, uint64_t bytes, Place* out) {
    return device.Find(sdk::AddressOf(memory), bytes, out);
  }
  static std::string FindHost(const Queue& queue, sdk::Memory memory, uint64_t, Place* out) {
    *out = {sdk::AddressOf(memory), nullptr};
    const std::shared_ptr<Device> owner = queue.device().system().Owner(out->address);
    return owner == nullptr ? "" : "memory of " + owner->name();
  }

  // ---- Queues ----

  static Outcome MakeQueue(Device& device, int32_t, std::shared_ptr<Queue>* out_queue) {
    return device.MakeQueue(out_queue);
  }
  static void CloseQueue(Queue& queue) { queue.Close(); }
  static bool Knows(const Queue& queue, const Timeline& timeline) {
    return &timeline.owner().system() == &queue.device().system();
  }

  static Outcome Copy(Queue& queue, const Place& target, const Place& source, uint64_t bytes,
                      const tenon_submission& submission) {
    Order order = OrderOf("copy", "copy", submission);
    CostOfCopy(queue.device().options().machine, source, target, bytes, &order);
    return queue.Submit(order, [source, target, bytes]() -> Outcome {
      for (const Place* place : {&source, &target}) {
        if (Outcome alive = CheckAlive(*place); !alive.ok()) return alive;
      }
      if (bytes > 0) std::memmove(target.address, source.address, bytes);
      return {};
    });
  }
  static Outcome Fill(Queue& queue, const Place& target, uint64_t bytes, std::span<const char> pattern,
                      const tenon_submission& submission) {
    Order order = OrderOf("fill", "fill", submission);
    order.unit = Unit::kMemory;
    order.cost = MemoryCycles(queue.device().options().machine, 0, static_cast<int64_t>(bytes));
    std::array<char, 16> copy = {};
    std::copy(pattern.begin(), pattern.end(), copy.begin());
    return queue.Submit(
        order, [at = target.address, bytes, copy, size = pattern.size()] { Repeat(at, bytes, copy.data(), size); });
  }
  static Outcome Barrier(Queue& queue, const tenon_submission& submission) {
    return queue.Submit(OrderOf("barrier", "", submission), [] {});
  }
  static Outcome CallHost(Queue& queue, sdk::HostCall call, const tenon_submission& submission) {
    return queue.Submit(OrderOf("host call", "", submission), [call](const Outcome& before) { call(before); });
  }

  // ---- Timelines ----

  static Outcome MakeTimeline(Device& device, uint64_t initial, std::shared_ptr<Timeline>* out_timeline) {
    Outcome outcome = device.CheckAlive();
    if (!outcome.ok()) return outcome;
    *out_timeline = std::make_shared<Timeline>(device.shared_from_this(), initial);
    const Lock lock(device.system().mutex);
    device.timelines().insert(out_timeline->get());
    return outcome;
  }
  static void CloseTimeline(Timeline& timeline) {
    (void)WithTimeline(timeline, [&](Notices* out) -> Outcome {
      timeline.Fail(sdk::DestroyedAt(timeline.value()), out);
      timeline.owner().timelines().erase(&timeline);
      return {};
    });
  }
  static Outcome Query(const Timeline& timeline, uint64_t* out_value) {
    return WithTimeline(timeline, [&](Notices*) {
      *out_value = timeline.value();
      timeline.owner().system().clock.Observe(timeline.At(timeline.value()).reached);
      return timeline.failure();
    });
  }
  static Outcome Signal(Timeline& timeline, uint64_t value) {
    return WithTimeline(timeline, [&](Notices* out) -> Outcome {
      if (!timeline.failure().ok()) return timeline.failure();
      if (value <= timeline.value()) return sdk::NotAbove(timeline.value(), value);
      Clock& clock = timeline.owner().system().clock;
      timeline.Signal(value, clock.HostAt(clock.now()), out);
      return {};
    });
  }
  static void Fail(Timeline& timeline, const Outcome& why) {
    (void)WithTimeline(timeline, [&](Notices* out) -> Outcome {
      timeline.Fail(why, out);
      return {};
    });
  }
  static Outcome Wait(Timeline& timeline, uint64_t value, sdk::Deadline deadline) {
    const std::shared_ptr<System> system = timeline.owner().shared_system();
    Lock lock(system->mutex);
    while (true) {
      const PointState state = timeline.At(value);
      if (state.kind == PointState::kReached) {
        system->clock.Observe(state.reached);
        return {};
      }
      if (state.kind == PointState::kFailed) return *state.failure;
      if (std::chrono::steady_clock::now() >= deadline) {
        return Fault(TENON_DEADLINE_EXCEEDED, "a semaphore was to reach ", value, " and is at ", timeline.value());
      }
      timeline.changed.wait_until(lock, deadline);
    }
  }
  static Outcome Notify(Timeline& timeline, uint64_t value, sdk::HostCall call) {
    return WithTimeline(timeline, [&](Notices* out) -> Outcome {
      timeline.Notify(value, call, out);
      return {};
    });
  }
};

}  // namespace

constinit const tenon_device_driver kDeviceDriver = sdk::kDeviceTable<Driver>;

}  // namespace tenon::tpu_sim
