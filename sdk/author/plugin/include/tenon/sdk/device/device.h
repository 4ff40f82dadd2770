// SPDX-License-Identifier: Apache-2.0
// A device driver's table (tenon/device.h) from a small class of its own.
//
//   struct Driver {
//     static constexpr tenon_span kDeviceType = TENON_SPAN("NPU");
//     static constexpr int32_t kPriority = 50;  // among device types that can run a node; the CPU has 0
//     static constexpr std::string_view kMemoryKinds[] = {"device"};  // kind 0 is where tensors lie
//     static constexpr uint64_t kMostAlignment = 4096;                // that Allocate can give
//     using Device = npu::Device;                                     // : public sdk::Handled<Device, tenon_device>
//
//     static Outcome Count(tenon_plugin_self* self, uint32_t* out_count);
//     static Outcome Open(tenon_plugin_self* self, uint32_t index, std::shared_ptr<Device>* out_device);
//     static void Close(Device& device);                                      // optional
//     static void Properties(Device& device, tenon_device_properties* out);
//     static void MemoryKind(Device& device, uint32_t kind, tenon_memory_kind* out);
//     static Outcome Allocate(Device& device, uint32_t kind, uint64_t bytes, uint64_t alignment, Queue* queue,
//         Memory* out_memory);
//     static void Free(Device& device, uint32_t kind, Memory memory, uint64_t bytes, Queue* queue);
//     // These three are optional.
//     static Outcome Map(Device& device, uint32_t kind, Memory memory, uint64_t bytes, void** out_address);
//     static void Unmap(Device& device, uint32_t kind, Memory memory, uint64_t bytes, void* address);
//     static const void* Extension(Device& device, std::string_view id);
//
//     // What follows is a device with queues; without them the device is synchronous, and Allocate and Free take no
//     // queue.
//     using Queue = npu::Queue;        // : public sdk::Handled<Queue, tenon_queue>
//     using Timeline = npu::Timeline;  // : public sdk::Handled<Timeline, tenon_semaphore>
//     static Outcome MakeQueue(Device& device, int32_t priority, std::shared_ptr<Queue>* out_queue);
//     static void CloseQueue(Queue& queue);                                   // optional
//     static Outcome Copy(Queue& queue, const Place& target, const Place& source, uint64_t bytes,
//         const tenon_submission& submission);
//     static Outcome Fill(Queue& queue, const Place& target, uint64_t bytes, std::span<const char> pattern,
//                         const tenon_submission& submission);                // optional
//     static Outcome Barrier(Queue& queue, const tenon_submission& submission);
//     static Outcome CallHost(Queue& queue, HostCall call, const tenon_submission& submission);
//     static bool Knows(const Queue& queue, const Timeline& timeline);        // optional
//
//     static Outcome MakeTimeline(Device& device, uint64_t initial, std::shared_ptr<Timeline>* out_timeline);
//     static void CloseTimeline(Timeline& timeline);                          // optional
//     static Outcome Query(Timeline& timeline, uint64_t* out_value);
//     static Outcome Signal(Timeline& timeline, uint64_t value);              // optional
//     static void Fail(Timeline& timeline, const Outcome& why);
//     static Outcome Wait(Timeline& timeline, uint64_t value, Deadline deadline);
//     static Outcome Notify(Timeline& timeline, uint64_t value, HostCall call);  // optional
//
//     // Where bytes of a copy or a fill are, as the device's own threads or streams take it. Without these a Place is
//     // sdk::Place<Device>.
//     using Place = npu::Place;                                               // a new one is that of no bytes
//     // false: not all are in one living block
//     static bool Find(Device& device, Memory memory, uint64_t bytes, Place* out_place);
//     // "", or whose it is: "memory of NPU:0"
//     static std::string FindHost(Queue& queue, Memory memory, uint64_t bytes, Place* out_place);
//   };
//   const tenon_capability kCapabilities[] = {TENON_PROVIDES(DEVICE, &tenon::sdk::kDeviceTable<Driver>)};
//
// A device with queues has Device::name() ("NPU:0", for messages) and Queue::device(). What is optional and absent is
// an empty slot of the table: the host does without. No member may be overloaded.
//
// Ends. A member gives an Outcome, a tenon_status* or nothing; what it throws becomes a status (Fail() and Check() of
// kernel.h give their own). Out arguments count on success only, but for Query's value, which a failed timeline has
// too. A failure of what cannot say so (Close, Free, ...) is logged.
//
// What comes over the ABI is checked here, before a member is called: objects that are NULL (a handle that is not NULL
// is believed), structs that are shorter than ours (they get zeros behind) or have bits of must_understand, kinds of
// memory, alignments, patterns (1, 2, 4, 8 or 16 bytes), points without a semaphore or, by Knows, of another driver's,
// signals without a timeline, and, by Find and FindHost, memory that is not where it is said to be. Which index of a
// device there is, Open says.
//
// Who owns what. The host holds devices, queues and timelines by their handles (handled.h); each stays while the host
// has it or somebody shares it, and Close, CloseQueue and CloseTimeline are called when the host gives it back: a
// closed queue runs nothing any more, and a closed timeline has told whoever asked (DestroyedAt). References, places'
// arguments, submissions and their arrays and labels end with the call; patterns and labels are copied. What a
// submission's points name stays until the work is done.
//
// Threads. Every member may be called from any thread, also several at once on one object; the host does not give back
// what another thread is in a call with. Copy, Fill, Barrier and CallHost give work to the queue and return at once:
// none may wait for work, as what it would wait for may be submitted by the same thread. Allocate may wait for the
// device, not for a queue. Wait blocks; CloseQueue returns when nothing of the queue runs any more. A HostCall is
// called exactly once, on a thread of the driver with none of its locks held (Notify's may be called before Notify
// returns); not at all where CallHost or Notify have failed.
//
// Units: bytes; flops and bytes a second; seconds; deadlines are instants of the monotonic clock.
#ifndef TENON_SDK_DEVICE_DEVICE_H_
#define TENON_SDK_DEVICE_DEVICE_H_

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/sdk/answer.h"
#include "tenon/sdk/handled.h"

namespace tenon::sdk {

// A place in memory, as DLPack names it: what an allocation gave, and bytes from there. The ABI of today has addresses:
// then the handle is the address itself, which may lie within a block, and the offset is 0. A driver that adds the two,
// and finds blocks by where they begin and end, is right with either.
struct Memory {
  void* handle = nullptr;
  uint64_t offset = 0;
};
inline Memory MemoryAt(const void* address) { return {const_cast<void*>(address), 0}; }
// Of memory whose handles are addresses.
inline char* AddressOf(Memory memory) { return static_cast<char*>(memory.handle) + memory.offset; }

// Where bytes of a copy are, of a driver that does not look them up itself.
template <class Device>
struct Place {
  Device* device = nullptr;  // NULL: ordinary memory of the host
  Memory memory;
};

// Whom of the host's to call when the queue or the timeline gets there, and with what it came to.
struct HostCall {
  tenon_notify_function function = nullptr;
  void* argument = nullptr;
  void operator()(const Outcome& outcome) const { function(argument, ToStatus(outcome)); }
};

using Deadline = std::chrono::steady_clock::time_point;
// Nanoseconds of the monotonic clock, as the ABI has them; what the clock cannot say is its last instant.
inline Deadline DeadlineAt(uint64_t deadline_ns) {
  return Deadline(std::chrono::nanoseconds(static_cast<int64_t>(std::min<uint64_t>(deadline_ns, INT64_MAX))));
}

// What a timeline fails with that is closed at this value, for whoever asked to be told of points to come.
inline Outcome DestroyedAt(uint64_t value) { return Fault(TENON_CANCELLED, "the semaphore was destroyed at ", value); }
// What the host is told that signals a value which is not above the one that was reached.
inline Outcome NotAbove(uint64_t reached, uint64_t value) {
  return Fault(TENON_INVALID_ARGUMENT, "signal of ", value, " on a semaphore that has reached ", reached);
}

// TakeStruct (answer.h) of a submission to the queue, for tables of extensions: its points are then whole and of this
// driver.
template <class Driver>
[[nodiscard]] tenon_status* TakeSubmission([[maybe_unused]] const typename Driver::Queue& queue,
                                           const tenon_submission** given, tenon_submission* room) {
  TENON_SDK_RETURN_IF_ERROR(TakeStruct("a submission", given, room));
  const tenon_submission& submission = **given;
  if (submission.waits == nullptr && submission.wait_count != 0) [[unlikely]]
    return IsNull("the list of what a submission waits for");
  for (uint64_t i = 0; i < submission.wait_count; ++i) {
    const auto* const timeline = Driver::Timeline::Of(submission.waits[i].semaphore);
    if (timeline == nullptr) [[unlikely]] return Failure(TENON_INVALID_ARGUMENT, "wait ", i, " has no semaphore");
    if constexpr (requires { &Driver::Knows; }) {
      if (!Driver::Knows(queue, *timeline)) [[unlikely]] {
        return Failure(TENON_INVALID_ARGUMENT, "wait ", i, " is for a semaphore of another driver");
      }
    }
  }
  if (submission.timeline != nullptr || submission.signal == 0) [[likely]] return nullptr;
  return Failure(TENON_INVALID_ARGUMENT, "a signal of ", submission.signal, " without a timeline");
}

namespace internal {

template <class Driver>
concept HasQueues = requires { typename Driver::Queue; };

// Whether it looks memory up.
template <class Driver>
concept Finds = requires { &Driver::Find; };

template <class Driver>
struct PlaceOf {
  using Type = Place<typename Driver::Device>;
};
template <Finds Driver>
struct PlaceOf<Driver> {
  using Type = typename Driver::Place;
};

// Gives the host what make(&object) made. what: the argument's name.
template <class Object, class Opaque, class Function>
[[nodiscard]] tenon_status* GiveMade(const char* what, Opaque** out, Function&& make) noexcept {
  if (out == nullptr) return IsNull(what);
  *out = nullptr;
  return Answer([&]() -> tenon_status* {
    std::shared_ptr<Object> made;
    TENON_SDK_RETURN_IF_ERROR(StatusOf([&] { return make(&made); }));
    if (made == nullptr) return Failure(TENON_INTERNAL, "the driver has made nothing for ", what);
    *out = Object::Give(std::move(made));
    return nullptr;
  });
}

// Takes the host's handle back and ends it by close(object).
template <class Object, class Opaque, class Function>
void TakeBack(Opaque* handle, Function&& close) noexcept {
  if (handle == nullptr) return;
  LogFailure(Answer([&] {
    const std::shared_ptr<Object> last = Object::TakeBack(handle);
    close(*last);
  }));
}

// The functions of the table that every driver has.
template <class Driver>
struct DeviceFunctions {
  using Device = typename Driver::Device;
  static constexpr uint32_t kKinds = std::size(Driver::kMemoryKinds);

  static tenon_status* Count(tenon_plugin_self* self, uint32_t* out_count) noexcept {
    if (out_count == nullptr) return IsNull("out_count");
    *out_count = 0;
    return Answer([&] { return Driver::Count(self, out_count); });
  }
  static tenon_status* Open(tenon_plugin_self* self, uint32_t index, tenon_device** out_device) noexcept {
    return GiveMade<Device>("out_device", out_device,
                            [&](std::shared_ptr<Device>* out) { return Driver::Open(self, index, out); });
  }
  static void Close(tenon_device* device) noexcept {
    TakeBack<Device>(device, []([[maybe_unused]] Device& last) {
      if constexpr (requires { &Driver::Close; }) Driver::Close(last);
    });
  }
  static tenon_status* Properties(tenon_device* device, tenon_device_properties* out_properties) noexcept {
    if (device == nullptr) return IsNull("the device");
    return Answer([&] {
      return FillStruct("out_properties", out_properties, [&](tenon_device_properties* out) {
        out->synchronous = HasQueues<Driver> ? 0 : 1;
        out->memory_kind_count = kKinds;
        return Driver::Properties(*Device::Of(device), out);
      });
    });
  }
  static tenon_status* MemoryKind(tenon_device* device, uint32_t index, tenon_memory_kind* out_kind) noexcept {
    if (device == nullptr) return IsNull("the device");
    return Answer([&]() -> tenon_status* {
      if (index >= kKinds) return NoKind(index);
      return FillStruct("out_kind", out_kind, [&](tenon_memory_kind* out) {
        out->name = ToSpan(Driver::kMemoryKinds[index]);
        return Driver::MemoryKind(*Device::Of(device), index, out);
      });
    });
  }

  // queue: the driver's, or nothing where it has none.
  template <class... Queue>
  static tenon_status* AllocateFor(tenon_device* device, uint32_t kind, uint64_t bytes, uint64_t alignment,
                                   void** out_data, Queue*... queue) noexcept {
    if (device == nullptr) [[unlikely]] return IsNull("the device");
    if (out_data == nullptr) [[unlikely]] return IsNull("out_data");
    *out_data = nullptr;
    return Answer([&]() -> tenon_status* {
      if (kind >= kKinds) [[unlikely]] return NoKind(kind);
      if ((alignment & (alignment - 1)) != 0 || alignment > Driver::kMostAlignment) [[unlikely]] {
        return Failure(TENON_INVALID_ARGUMENT, "alignment ", alignment, " is not a power of two up to ",
                       Driver::kMostAlignment);
      }
      Memory memory;
      tenon_status* failed =
          StatusOf([&] { return Driver::Allocate(*Device::Of(device), kind, bytes, alignment, queue..., &memory); });
      if (failed == nullptr) *out_data = AddressOf(memory);
      return failed;
    });
  }
  template <class... Queue>
  static void FreeFor(tenon_device* device, uint32_t kind, void* data, uint64_t bytes, Queue*... queue) noexcept {
    if (device == nullptr || data == nullptr) return;
    LogFailure(Answer([&] { return Driver::Free(*Device::Of(device), kind, MemoryAt(data), bytes, queue...); }));
  }
  static tenon_status* Allocate(tenon_device* device, uint32_t kind, uint64_t bytes, uint64_t alignment,
                                [[maybe_unused]] tenon_queue* queue, void** out_data) noexcept {
    if constexpr (HasQueues<Driver>) {
      return AllocateFor(device, kind, bytes, alignment, out_data, Driver::Queue::Of(queue));
    } else {
      return AllocateFor(device, kind, bytes, alignment, out_data);
    }
  }
  static void Free(tenon_device* device, uint32_t kind, void* data, uint64_t bytes,
                   [[maybe_unused]] tenon_queue* queue) noexcept {
    if constexpr (HasQueues<Driver>) {
      FreeFor(device, kind, data, bytes, Driver::Queue::Of(queue));
    } else {
      FreeFor(device, kind, data, bytes);
    }
  }

  static tenon_status* Map(tenon_device* device, uint32_t kind, void* data, uint64_t bytes,
                           void** out_address) noexcept {
    if (device == nullptr) return IsNull("the device");
    if (out_address == nullptr) return IsNull("out_address");
    *out_address = nullptr;
    return Answer([&]() -> tenon_status* {
      if (kind >= kKinds) return NoKind(kind);
      return StatusOf([&] { return Driver::Map(*Device::Of(device), kind, MemoryAt(data), bytes, out_address); });
    });
  }
  static void Unmap([[maybe_unused]] tenon_device* device, [[maybe_unused]] uint32_t kind, [[maybe_unused]] void* data,
                    [[maybe_unused]] uint64_t bytes, [[maybe_unused]] void* address) noexcept {
    if constexpr (requires { &Driver::Unmap; }) {
      if (device == nullptr) return;
      LogFailure(Answer([&] { return Driver::Unmap(*Device::Of(device), kind, MemoryAt(data), bytes, address); }));
    }
  }
  static const void* Extension(tenon_device* device, tenon_span id) noexcept {
    if (device == nullptr) return nullptr;
    const void* found = nullptr;
    LogFailure(Answer([&] { found = Driver::Extension(*Device::Of(device), ToText(id)); }));
    return found;
  }

 private:
  // "memory kind 2; there are 0 (device) and 1 (staging)"
  [[gnu::cold]] static tenon_status* NoKind(uint32_t kind) {
    std::string kinds;
    for (uint32_t i = 0; i < kKinds; ++i) {
      kinds += Concat(i == 0 ? "" : i + 1 == kKinds ? " and " : ", ", i, " (", Driver::kMemoryKinds[i], ")");
    }
    return Failure(TENON_NOT_FOUND, "memory kind ", kind, kKinds == 1 ? "; there is " : "; there are ", kinds);
  }
};

// Those of a driver with queues.
template <class Driver>
struct QueueFunctions {
  using Device = typename Driver::Device;
  using Queue = typename Driver::Queue;
  using Timeline = typename Driver::Timeline;
  using Place = typename PlaceOf<Driver>::Type;

  static tenon_status* QueueCreate(tenon_device* device, int32_t priority, tenon_queue** out_queue) noexcept {
    if (device == nullptr) return IsNull("the device");
    return GiveMade<Queue>("out_queue", out_queue, [&](std::shared_ptr<Queue>* out) {
      return Driver::MakeQueue(*Device::Of(device), priority, out);
    });
  }
  static void QueueDestroy(tenon_queue* queue) noexcept {
    TakeBack<Queue>(queue, []([[maybe_unused]] Queue& last) {
      if constexpr (requires { &Driver::CloseQueue; }) Driver::CloseQueue(last);
    });
  }
  static tenon_status* QueueCopy(tenon_queue* queue, const tenon_copy_args* args,
                                 const tenon_submission* submission) noexcept {
    return Submit(queue, submission, [&](Queue& on, const tenon_submission& given) -> tenon_status* {
      tenon_copy_args room;
      TENON_SDK_RETURN_IF_ERROR(TakeStruct("a copy", &args, &room));
      Place source, target;
      TENON_SDK_RETURN_IF_ERROR(
          FindPlace(on, Device::Of(args->source_device), args->source, args->bytes, "source of a copy", &source));
      TENON_SDK_RETURN_IF_ERROR(
          FindPlace(on, Device::Of(args->target_device), args->target, args->bytes, "target of a copy", &target));
      return StatusOf([&] { return Driver::Copy(on, target, source, args->bytes, given); });
    });
  }
  static tenon_status* QueueFill(tenon_queue* queue, const tenon_fill_args* args,
                                 const tenon_submission* submission) noexcept {
    return Submit(queue, submission, [&](Queue& on, const tenon_submission& given) -> tenon_status* {
      tenon_fill_args room;
      TENON_SDK_RETURN_IF_ERROR(TakeStruct("a fill", &args, &room));
      const uint64_t size = args->pattern_bytes;
      if (size == 0 || size > 16 || (size & (size - 1)) != 0) {
        return Failure(TENON_INVALID_ARGUMENT, "a pattern of ", size, " bytes; it may have 1, 2, 4, 8 or 16");
      }
      if (args->pattern == nullptr) return IsNull("the pattern of a fill");
      Place target;
      TENON_SDK_RETURN_IF_ERROR(FindPlace(on, &on.device(), args->target, args->bytes, "target of a fill", &target));
      const std::span<const char> pattern(static_cast<const char*>(args->pattern), size);
      return StatusOf([&] { return Driver::Fill(on, target, args->bytes, pattern, given); });
    });
  }
  static tenon_status* QueueBarrier(tenon_queue* queue, const tenon_submission* submission) noexcept {
    return Submit(queue, submission,
                  [](Queue& on, const tenon_submission& given) { return Driver::Barrier(on, given); });
  }
  static tenon_status* QueueHostCall(tenon_queue* queue, tenon_notify_function function, void* argument,
                                     const tenon_submission* submission) noexcept {
    if (function == nullptr) return IsNull("the function to call");
    return Submit(queue, submission, [&](Queue& on, const tenon_submission& given) {
      return Driver::CallHost(on, HostCall{function, argument}, given);
    });
  }

  static tenon_status* SemaphoreCreate(tenon_device* device, uint64_t initial,
                                       tenon_semaphore** out_semaphore) noexcept {
    if (device == nullptr) return IsNull("the device");
    return GiveMade<Timeline>("out_semaphore", out_semaphore, [&](std::shared_ptr<Timeline>* out) {
      return Driver::MakeTimeline(*Device::Of(device), initial, out);
    });
  }
  static void SemaphoreDestroy(tenon_semaphore* semaphore) noexcept {
    TakeBack<Timeline>(semaphore, []([[maybe_unused]] Timeline& last) {
      if constexpr (requires { &Driver::CloseTimeline; }) Driver::CloseTimeline(last);
    });
  }
  static tenon_status* SemaphoreQuery(tenon_semaphore* semaphore, uint64_t* out_value) noexcept {
    if (out_value == nullptr) return IsNull("out_value");
    return With(semaphore, [&](Timeline& timeline) { return Driver::Query(timeline, out_value); });
  }
  static tenon_status* SemaphoreSignal(tenon_semaphore* semaphore, uint64_t value) noexcept {
    return With(semaphore, [&](Timeline& timeline) { return Driver::Signal(timeline, value); });
  }
  static void SemaphoreFail(tenon_semaphore* semaphore, tenon_status* status) noexcept {
    LogFailure(Answer([&]() -> tenon_status* {
      const Outcome why = TakeStatus(status);
      const Outcome& told = why.ok() ? Fault(TENON_UNKNOWN, "the host failed the timeline without saying why") : why;
      return With(semaphore, [&](Timeline& timeline) { return Driver::Fail(timeline, told); });
    }));
  }
  static tenon_status* SemaphoreWait(tenon_semaphore* semaphore, uint64_t value, uint64_t deadline_ns) noexcept {
    return With(semaphore, [&](Timeline& timeline) { return Driver::Wait(timeline, value, DeadlineAt(deadline_ns)); });
  }
  static tenon_status* SemaphoreNotify(tenon_semaphore* semaphore, uint64_t value, tenon_notify_function function,
                                       void* argument) noexcept {
    if (function == nullptr) return IsNull("the function to call");
    return With(semaphore, [&](Timeline& timeline) {
      return Driver::Notify(timeline, value, HostCall{function, argument});
    });
  }

 private:
  template <class Function>
  static tenon_status* With(tenon_semaphore* semaphore, Function&& function) noexcept {
    if (semaphore == nullptr) [[unlikely]] return IsNull("the semaphore");
    return Answer([&] { return function(*Timeline::Of(semaphore)); });
  }
  // Calls submit(queue, submission) with what is whole and of this driver.
  template <class Function>
  static tenon_status* Submit(tenon_queue* queue, const tenon_submission* submission, Function&& submit) noexcept {
    if (queue == nullptr) [[unlikely]] return IsNull("the queue");
    return Answer([&]() -> tenon_status* {
      Queue& on = *Queue::Of(queue);
      tenon_submission room;
      TENON_SDK_RETURN_IF_ERROR(TakeSubmission<Driver>(on, &submission, &room));
      return StatusOf([&] { return submit(on, *submission); });
    });
  }
  // device NULL: it is said to be the host's. what: "source of a copy".
  static tenon_status* FindPlace(Queue& queue, Device* device, const void* address, uint64_t bytes, const char* what,
                                 Place* out) {
    if constexpr (!Finds<Driver>) *out = {device, MemoryAt(address)};
    if (bytes == 0) return nullptr;
    if (address == nullptr) [[unlikely]]
      return Failure(TENON_INVALID_ARGUMENT, queue.device().name(), ": the ", what, " is NULL");
    if constexpr (Finds<Driver>) {
      if (device == nullptr) {
        const std::string owner = Driver::FindHost(queue, MemoryAt(address), bytes, out);
        if (owner.empty()) [[likely]] return nullptr;
        return Failure(TENON_INVALID_ARGUMENT, queue.device().name(), ": the ", what,
                       " is said to be host memory and is ", owner);
      }
      if (Driver::Find(*device, MemoryAt(address), bytes, out)) [[likely]] return nullptr;
      return Failure(TENON_INVALID_ARGUMENT, device->name(), ": the ", what, " of ", bytes,
                     " bytes is not in a living block of its memory");
    }
    return nullptr;
  }
};

template <class Driver>
constexpr void AddQueues(tenon_device_driver* table) {
  using Functions = QueueFunctions<Driver>;
  table->queue_create = Functions::QueueCreate;
  table->queue_destroy = Functions::QueueDestroy;
  table->queue_copy = Functions::QueueCopy;
  if constexpr (requires { &Driver::Fill; }) table->queue_fill = Functions::QueueFill;
  table->queue_barrier = Functions::QueueBarrier;
  table->queue_host_call = Functions::QueueHostCall;
  table->semaphore_create = Functions::SemaphoreCreate;
  table->semaphore_destroy = Functions::SemaphoreDestroy;
  table->semaphore_query = Functions::SemaphoreQuery;
  if constexpr (requires { &Driver::Signal; }) table->semaphore_signal = Functions::SemaphoreSignal;
  table->semaphore_fail = Functions::SemaphoreFail;
  table->semaphore_wait = Functions::SemaphoreWait;
  if constexpr (requires { &Driver::Notify; }) table->semaphore_notify = Functions::SemaphoreNotify;
}

template <class Driver>
constexpr tenon_device_driver MakeDeviceTable() {
  using Functions = DeviceFunctions<Driver>;
  tenon_device_driver table = {};
  table.struct_size = sizeof table;
  table.device_type = Driver::kDeviceType;
  table.priority = Driver::kPriority;
  table.count = Functions::Count;
  table.open = Functions::Open;
  table.close = Functions::Close;
  table.properties = Functions::Properties;
  table.memory_kind = Functions::MemoryKind;
  table.allocate = Functions::Allocate;
  table.free = Functions::Free;
  if constexpr (requires { &Driver::Map; }) {
    table.map = Functions::Map;
    table.unmap = Functions::Unmap;
  }
  if constexpr (HasQueues<Driver>) AddQueues<Driver>(&table);
  if constexpr (requires { &Driver::Extension; }) table.get_extension = Functions::Extension;
  return table;
}

}  // namespace internal

template <class Driver>
inline constexpr tenon_device_driver kDeviceTable = internal::MakeDeviceTable<Driver>();

}  // namespace tenon::sdk

#endif  // TENON_SDK_DEVICE_DEVICE_H_
