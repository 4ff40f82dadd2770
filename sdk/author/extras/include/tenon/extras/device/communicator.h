// SPDX-License-Identifier: Apache-2.0
// A table of collectives between devices (tenon/ext/draft/collective.h) from a small class of its own.
//
//   struct Library {
//     static constexpr tenon_span kDeviceType = TENON_SPAN("NPU");
//     // has Device, Queue and Timeline with handles, and Knows, as device.h says; its devices join
//     using Driver = npu::Driver;
//     using Communicator = npu::Channel*;  // a member's place in the library; a new one is none
//     using Seat = sdk::CollectiveSeat<Library>;
//     using Work = sdk::CollectiveWork<Library>;
//
//     // optional; false: another plugin's handle
//     static bool Owns(tenon_plugin_self* self, const tenon_device* device);
//     static Outcome MakeToken(tenon_plugin_self* self, std::string* out_token);
//     static Outcome Join(tenon_plugin_self* self, std::span<const std::unique_ptr<Seat>> seats, Deadline deadline);
//     static void Leave(Seat& seat);
//     static void Abort(Seat& seat);
//     static Outcome AllReduce(tenon_plugin_self* self, std::span<const Work> works, uint64_t elements, uint32_t dtype,
//         uint32_t reduce);
//     static Outcome AllGather(tenon_plugin_self* self, std::span<const Work> works, uint64_t elements,
//         uint32_t dtype);
//     static Outcome Broadcast(tenon_plugin_self* self, std::span<const Work> works, uint64_t elements, uint32_t dtype,
//         int32_t root);
//   };
//   const tenon_capability kCapabilities[] = {TENON_PROVIDES(COLLECTIVE, &tenon::sdk::kCollectiveTable<Library>)};
//
// Ends. As in device.h: an Outcome, a tenon_status* or nothing; what is thrown becomes a status, of Leave and Abort a
// line in the log. Join sets `communicator` of every seat, or fails and leaves none behind; it answers UNIMPLEMENTED
// where it cannot wait for members that join elsewhere. What a dtype is not served for is UNIMPLEMENTED too, and the
// member's to say.
//
// What comes over the ABI is checked here, before a member is called: pointers that are NULL (a handle that is not NULL
// is believed, unless Owns says otherwise), ranks that are none of the group's or come twice, devices that come twice,
// tokens of more than kMostTokenBytes; for works: one group, one work of each member, the queue of the member's device,
// submissions (TakeSubmission), memory that is NULL, the reduction's number, the root. A call without any work is a
// success that nobody hears of.
//
// Who owns what. The host owns the seats until Leave or Abort, which free them afterwards; a seat holds its device.
// Spans, works and submissions end with the call; memory of source and target, and what a submission's points name,
// stay until the work is done.
//
// Threads. Every member may be called from any thread, and several at once; calls of one group come one after the
// other. None but Join waits for other members. `elements` counts those of one source; AllGather's target has room for
// elements * seat.size.
#ifndef TENON_SDK_DEVICE_COMMUNICATOR_H_
#define TENON_SDK_DEVICE_COMMUNICATOR_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tenon/ext/draft/collective.h"
#include "tenon/sdk/device/device.h"

namespace tenon::sdk {

inline constexpr uint64_t kMostTokenBytes = 256;

// A member of a group: what a tenon_communicator is.
template <class Library>
struct CollectiveSeat {
  std::shared_ptr<typename Library::Driver::Device> device;
  std::string token;  // the group's
  int32_t rank = 0;
  int32_t size = 0;  // of the group, wherever its members are
  typename Library::Communicator communicator{};
};

// One member's part of a collective.
template <class Library>
struct CollectiveWork {
  const CollectiveSeat<Library>& seat;
  typename Library::Driver::Queue& queue;  // of the seat's device
  const void* source;                      // may be NULL where it is not read
  void* target;
  const tenon_submission& submission;  // whole
};

namespace internal {

template <class Library>
struct CollectiveFunctions {
  using Driver = typename Library::Driver;
  using Device = typename Driver::Device;
  using Queue = typename Driver::Queue;
  using Seat = CollectiveSeat<Library>;
  using Work = CollectiveWork<Library>;
  using Seats = std::vector<std::unique_ptr<Seat>>;
  static Seat* Of(tenon_communicator* communicator) { return reinterpret_cast<Seat*>(communicator); }

  static tenon_status* MakeToken(tenon_plugin_self* self, char out_token[kMostTokenBytes],
                                 uint64_t* out_size) noexcept {
    if (out_token == nullptr) return IsNull("out_token");
    if (out_size == nullptr) return IsNull("out_size");
    *out_size = 0;
    return Answer([&]() -> tenon_status* {
      std::string token;
      TENON_SDK_RETURN_IF_ERROR(StatusOf([&] { return Library::MakeToken(self, &token); }));
      if (token.size() > kMostTokenBytes)
        return Failure(TENON_INTERNAL, "the library has made a token of ", token.size(), " bytes");
      *out_size = token.copy(out_token, token.size());
      return nullptr;
    });
  }

  static tenon_status* Join(tenon_plugin_self* self, tenon_span token, const tenon_collective_place* places,
                            uint64_t count, int32_t size, uint64_t deadline_ns,
                            tenon_communicator** out_communicators) noexcept {
    if (out_communicators == nullptr) return IsNull("out_communicators");
    if (count == 0 || size < 1 || count > static_cast<uint64_t>(size))
      return Failure(TENON_INVALID_ARGUMENT, count, " of ", size, " members join");
    std::fill_n(out_communicators, count, nullptr);
    if (places == nullptr) return IsNull("the list of members");
    return Answer([&]() -> tenon_status* {
      Seats seats;
      TENON_SDK_RETURN_IF_ERROR(TakeSeats(self, token, {places, count}, size, &seats));
      TENON_SDK_RETURN_IF_ERROR(StatusOf([&] { return Library::Join(self, seats, DeadlineAt(deadline_ns)); }));
      std::ranges::transform(seats, out_communicators,
                             [](auto& seat) { return reinterpret_cast<tenon_communicator*>(seat.release()); });
      return nullptr;
    });
  }
  static void Leave(tenon_communicator* communicator) noexcept {
    End(communicator, [](Seat& seat) { return Library::Leave(seat); });
  }
  static void Abort(tenon_communicator* communicator) noexcept {
    End(communicator, [](Seat& seat) { return Library::Abort(seat); });
  }

  static tenon_status* AllReduce(tenon_plugin_self* self, const tenon_collective_call* calls, uint64_t count,
                                 uint64_t elements, uint32_t dtype, uint32_t reduce) noexcept {
    if (reduce > TENON_REDUCE_MAX) {
      return Failure(TENON_INVALID_ARGUMENT, "a reduction of number ", reduce, "; there are 0 (sum) to 3 (max)");
    }
    return Do(calls, count, [&](const Work& work) { return CheckMemory(work, elements, true); },
              [&](std::span<const Work> works) { return Library::AllReduce(self, works, elements, dtype, reduce); });
  }
  static tenon_status* AllGather(tenon_plugin_self* self, const tenon_collective_call* calls, uint64_t count,
                                 uint64_t elements, uint32_t dtype) noexcept {
    const auto check = [&](const Work& work) -> tenon_status* {
      TENON_SDK_RETURN_IF_ERROR(CheckMemory(work, elements, true));
      if (elements == 0 || work.source != work.target) return nullptr;
      return Failure(TENON_INVALID_ARGUMENT, work.seat.device->name(), ": source and target of a gather are one");
    };
    return Do(calls, count, check,
              [&](std::span<const Work> works) { return Library::AllGather(self, works, elements, dtype); });
  }
  static tenon_status* Broadcast(tenon_plugin_self* self, const tenon_collective_call* calls, uint64_t count,
                                 uint64_t elements, uint32_t dtype, int32_t root) noexcept {
    const auto check = [&](const Work& work) -> tenon_status* {
      if (root < 0 || root >= work.seat.size)
        return Failure(TENON_INVALID_ARGUMENT, "root ", root, " of ", work.seat.size, " members");
      return CheckMemory(work, elements, work.seat.rank == root);
    };
    return Do(calls, count, check,
              [&](std::span<const Work> works) { return Library::Broadcast(self, works, elements, dtype, root); });
  }

 private:
  static tenon_status* TakeSeats(tenon_plugin_self* self, tenon_span token,
                                 std::span<const tenon_collective_place> places, int32_t size, Seats* out_seats) {
    if (token.size > kMostTokenBytes) {
      return Failure(TENON_INVALID_ARGUMENT, "a token of ", token.size, " bytes; the most is ", kMostTokenBytes);
    }
    for (size_t i = 0; i < places.size(); ++i) {
      TENON_SDK_RETURN_IF_ERROR(CheckPlace(self, i, places[i], size, *out_seats));
      out_seats->push_back(std::make_unique<Seat>(Seat{
          Device::Of(places[i].device)->shared_from_this(), std::string(ToText(token)), places[i].rank, size, {}}));
    }
    return nullptr;
  }
  // before: the seats of the places before it.
  static tenon_status* CheckPlace([[maybe_unused]] tenon_plugin_self* self, size_t i,
                                  const tenon_collective_place& place, int32_t size, const Seats& before) {
    if (place.device == nullptr) return Failure(TENON_INVALID_ARGUMENT, "member ", i, " has no device");
    if constexpr (requires { &Library::Owns; }) {
      if (!Library::Owns(self, place.device))
        return Failure(TENON_INVALID_ARGUMENT, "member ", i, " is no open device of this plugin");
    }
    const auto has_rank = [&](const auto& seat) { return seat->rank == place.rank; };
    if (place.rank < 0 || place.rank >= size || std::ranges::any_of(before, has_rank)) {
      return Failure(TENON_INVALID_ARGUMENT, "rank ", place.rank, " of ", size,
                     " members comes twice or does not exist");
    }
    const Device* const device = Device::Of(place.device);
    const auto same = std::ranges::find_if(before, [&](const auto& seat) { return seat->device.get() == device; });
    if (same == before.end()) return nullptr;
    return Failure(TENON_INVALID_ARGUMENT, "members ", same - before.begin(), " and ", i, " are both on ",
                   device->name());
  }
  template <class Function>
  static void End(tenon_communicator* communicator, Function&& end) noexcept {
    if (communicator == nullptr) return;
    const std::unique_ptr<Seat> own(Of(communicator));
    LogFailure(Answer([&] { return end(*own); }));
  }

  // Does the calls' works when check(work) has nothing against any of them.
  template <class Check, class Function>
  static tenon_status* Do(const tenon_collective_call* calls, uint64_t count, Check&& check,
                          Function&& work_all) noexcept {
    if (count == 0) return nullptr;
    if (calls == nullptr) return IsNull("the list of calls");
    return Answer([&]() -> tenon_status* {
      std::vector<tenon_submission> rooms(count);
      std::vector<Work> works;
      works.reserve(count);
      for (uint64_t i = 0; i < count; ++i) {
        TENON_SDK_RETURN_IF_ERROR(TakeWork(i, calls[i], &rooms[i], &works));
        TENON_SDK_RETURN_IF_ERROR(check(works.back()));
      }
      return StatusOf([&] { return work_all(std::span<const Work>(works)); });
    });
  }
  static tenon_status* TakeWork(uint64_t i, const tenon_collective_call& call, tenon_submission* room,
                                std::vector<Work>* works) {
    if (call.communicator == nullptr) return Failure(TENON_INVALID_ARGUMENT, "call ", i, " has no communicator");
    if (call.queue == nullptr) return Failure(TENON_INVALID_ARGUMENT, "call ", i, " has no queue");
    const Seat& seat = *Of(call.communicator);
    Queue& queue = *Queue::Of(call.queue);
    if (&queue.device() != seat.device.get()) {
      return Failure(TENON_INVALID_ARGUMENT, "call ", i, " has a queue of ", queue.device().name(),
                     " and a communicator of ", seat.device->name());
    }
    for (const Work& other : *works) {
      if (other.seat.token != seat.token || other.seat.size != seat.size) {
        return Failure(TENON_INVALID_ARGUMENT, "call ", i, " is of another group than those before it");
      }
      if (&other.seat == &seat)
        return Failure(TENON_INVALID_ARGUMENT, "call ", i, " is of a member that has one before it");
    }
    const tenon_submission* submission = call.submission;
    TENON_SDK_RETURN_IF_ERROR(TakeSubmission<Driver>(queue, &submission, room));
    works->push_back({seat, queue, call.source, call.target, *submission});
    return nullptr;
  }
  static tenon_status* CheckMemory(const Work& work, uint64_t elements, bool reads) {
    if (elements == 0) return nullptr;
    const char* const missing = reads && work.source == nullptr ? "source"
                                : work.target == nullptr        ? "target"
                                                                : nullptr;
    if (missing == nullptr) return nullptr;
    return Failure(TENON_INVALID_ARGUMENT, work.seat.device->name(), ": the ", missing, " of a collective is NULL");
  }
};

}  // namespace internal

template <class Library>
inline constexpr tenon_collective kCollectiveTable = {
    TENON_HEAD(tenon_collective),
    Library::kDeviceType,
    internal::CollectiveFunctions<Library>::MakeToken,
    internal::CollectiveFunctions<Library>::Join,
    internal::CollectiveFunctions<Library>::Leave,
    internal::CollectiveFunctions<Library>::Abort,
    internal::CollectiveFunctions<Library>::AllReduce,
    internal::CollectiveFunctions<Library>::AllGather,
    internal::CollectiveFunctions<Library>::Broadcast};

}  // namespace tenon::sdk

#endif  // TENON_SDK_DEVICE_COMMUNICATOR_H_
