// SPDX-License-Identifier: Apache-2.0
// The capability tenon.collective/1 of a GPU plugin, over the vendor's library. tenon/extras/device/communicator.h
// makes the table and checks what comes.
//
// All members of a group join in one call: groups of several processes are not there yet.
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "collective/collectives.h"
#include "driver.h"
#include "tenon/extras/device/communicator.h"

namespace tenon::gpu {
namespace {

template <class Function>
Outcome WithLibrary(System& system, Function&& function) {
  Collectives& collectives = system.collectives();
  const std::lock_guard lock(collectives.mutex());
  Outcome outcome = collectives.library().Open();
  return outcome.ok() ? function(collectives.library()) : outcome;
}

struct Collecting {
  static constexpr tenon_span kDeviceType = sdk::ToSpan(gpu::kDeviceType);
  using Driver = Handles;
  using Communicator = gpu::Communicator;
  using Seat = sdk::CollectiveSeat<Collecting>;
  using Work = sdk::CollectiveWork<Collecting>;

  static bool Owns(tenon_plugin_self* self, const tenon_device* device) {
    const Device* const own = OwnDevice(device);
    return own != nullptr && &own->system() == SystemOf(self).get();
  }
  static Outcome MakeToken(tenon_plugin_self* self, std::string* out_token) {
    return WithLibrary(*SystemOf(self), [&](CommunicatorLibrary& library) { return library.MakeToken(out_token); });
  }

  // With all members in the call nobody is waited for, so the deadline is met.
  static Outcome Join(tenon_plugin_self* self, std::span<const std::unique_ptr<Seat>> seats, sdk::Deadline) {
    if (const auto size = static_cast<size_t>(seats[0]->size); seats.size() != size) {
      return Fault(TENON_UNIMPLEMENTED, seats.size(), " of ", size,
                   " members join; groups of several processes are not there yet: join all in one call");
    }
    return WithLibrary(*SystemOf(self), [&](CommunicatorLibrary& library) {
      const auto join = [&](const auto& seat) {
        return library.Join(seat->token, seat->rank, seat->size, &seat->communicator);
      };
      Outcome outcome = Together(library, seats, join);
      for (const auto& seat : seats) {
        if (outcome.ok() || seat->communicator == nullptr) continue;
        (void)seat->device->card().Activate();
        library.Abort(seat->communicator);
      }
      return outcome;
    });
  }
  static void Leave(const Seat& seat) { End(seat, &CommunicatorLibrary::Leave); }
  static void Abort(const Seat& seat) { End(seat, &CommunicatorLibrary::Abort); }

  static Outcome AllReduce(tenon_plugin_self* self, std::span<const Work> works, uint64_t elements, uint32_t dtype,
                           uint32_t reduce) {
    return Give(self, works, [&](CommunicatorLibrary& library, const Work& w) {
      return library.AllReduce(w.seat.communicator, w.source, w.target, elements, dtype, reduce, w.queue.stream());
    });
  }
  static Outcome AllGather(tenon_plugin_self* self, std::span<const Work> works, uint64_t elements, uint32_t dtype) {
    return Give(self, works, [&](CommunicatorLibrary& library, const Work& w) {
      return library.AllGather(w.seat.communicator, w.source, w.target, elements, dtype, w.queue.stream());
    });
  }
  static Outcome Broadcast(tenon_plugin_self* self, std::span<const Work> works, uint64_t elements, uint32_t dtype,
                           int32_t root) {
    return Give(self, works, [&](CommunicatorLibrary& library, const Work& w) {
      return library.Broadcast(w.seat.communicator, w.source, w.target, elements, dtype, root, w.queue.stream());
    });
  }

 private:
  static const Seat& SeatOf(const std::unique_ptr<Seat>& seat) { return *seat; }
  static const Seat& SeatOf(const Work& work) { return work.seat; }

  // function(member) for each, on its GPU, in one group of the library's.
  template <class Members, class Function>
  static Outcome Together(CommunicatorLibrary& library, const Members& members, Function&& function) {
    Outcome outcome = library.BeginGroup();
    if (!outcome.ok()) return outcome;
    for (const auto& member : members) {
      if (outcome.ok()) outcome = SeatOf(member).device->card().Activate();
      if (outcome.ok()) outcome = function(member);
    }
    const Outcome ended = library.EndGroup();
    return outcome.ok() ? ended : outcome;
  }
  static void End(const Seat& seat, void (CommunicatorLibrary::*end)(gpu::Communicator) const) {
    Collectives& collectives = seat.device->system().collectives();
    const std::lock_guard lock(collectives.mutex());
    (void)seat.device->card().Activate();
    (collectives.library().*end)(seat.communicator);
  }
  // The works' waits, then the work of all in one group, then what they tell.
  template <class Function>
  static Outcome Give(tenon_plugin_self* self, std::span<const Work> works, Function&& give) {
    return WithLibrary(*SystemOf(self), [&](CommunicatorLibrary& library) -> Outcome {
      Outcome outcome = Submit(works, [](tenon_submission* waits) { waits->signal = 0; });
      if (outcome.ok()) outcome = Together(library, works, [&](const Work& work) { return give(library, work); });
      if (outcome.ok()) outcome = Submit(works, [](tenon_submission* tells) { tells->wait_count = 0; });
      return outcome;
    });
  }
  // The part of each submission that keep(&part) leaves.
  template <class Function>
  static Outcome Submit(std::span<const Work> works, Function&& keep) {
    Outcome outcome;
    for (const Work& work : works) {
      tenon_submission part = work.submission;
      keep(&part);
      if (outcome.ok()) outcome = work.queue.Submit(part, nullptr, [] { return Outcome(); });
    }
    return outcome;
  }
};

}  // namespace

constinit const tenon_collective kCollective = sdk::kCollectiveTable<Collecting>;

}  // namespace tenon::gpu
