// SPDX-License-Identifier: Apache-2.0
// The capability tenon.collective/1 of a GPU plugin, over the vendor's library: what comes over the ABI is checked and given to queues.
//
// All members of a group join in one call: groups of several processes are not there yet.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collective/collectives.h"
#include "driver.h"
#include "tenon/ext/draft/collective.h"

struct tenon_communicator {
  std::shared_ptr<tenon::gpu::Device> device;
  tenon::gpu::Communicator communicator;
};

namespace tenon::gpu {
namespace {


// As driver.cc makes it.
System& SystemOf(tenon_plugin_self* self) { return **reinterpret_cast<std::shared_ptr<System>*>(self); }

template <class Function>
tenon_status* WithLibrary(System& system, Function&& function) {
  return sdk::Guard([&] {
    Collectives& collectives = system.collectives();
    const std::lock_guard lock(collectives.mutex());
    Outcome outcome = collectives.library().Open();
    return ToStatus(outcome.ok() ? function(collectives.library()) : outcome);
  });
}

tenon_status* MakeToken(tenon_plugin_self* self, char out_token[256], uint64_t* out_size) {
  *out_size = 0;
  return WithLibrary(SystemOf(self), [&](CommunicatorLibrary& library) {
    std::string token;
    Outcome outcome = library.MakeToken(&token);
    if (!outcome.ok()) return outcome;
    token.copy(out_token, token.size());
    *out_size = token.size();
    return outcome;
  });
}

Outcome CheckPlaces(const System& system, const tenon_collective_place* places, uint64_t count, int32_t size) {
  if (size < 1 || count != static_cast<uint64_t>(size)) {
    return Fault(TENON_UNIMPLEMENTED, count, " of ", size, " members join; groups of several processes are not there yet: join all in one call");
  }
  std::vector<bool> taken(count, false);
  for (uint64_t i = 0; i < count; ++i) {
    const Device* const device = OwnDevice(places[i].device);
    if (device == nullptr || &device->system() != &system) return Fault(TENON_INVALID_ARGUMENT, "member ", i, " is no open device of ", kVendor.plugin);
    if (places[i].rank < 0 || places[i].rank >= size || taken[static_cast<size_t>(places[i].rank)]) {
      return Fault(TENON_INVALID_ARGUMENT, "rank ", places[i].rank, " of ", size, " members comes twice or does not exist");
    }
    taken[static_cast<size_t>(places[i].rank)] = true;
    for (uint64_t k = 0; k < i; ++k) {
      if (OwnDevice(places[k].device) == device) return Fault(TENON_INVALID_ARGUMENT, "members ", k, " and ", i, " are both on ", device->name());
    }
  }
  return {};
}

// With all members in the call nobody is waited for, so the deadline is met.
tenon_status* Join(tenon_plugin_self* self, tenon_span token, const tenon_collective_place* places, uint64_t count, int32_t size, uint64_t,
                   tenon_communicator** out_communicators) {
  return WithLibrary(SystemOf(self), [&](CommunicatorLibrary& library) -> Outcome {
    if (Outcome outcome = CheckPlaces(SystemOf(self), places, count, size); !outcome.ok()) return outcome;
    std::vector<Communicator> joined(count);
    Outcome outcome = library.BeginGroup();
    if (!outcome.ok()) return outcome;
    for (uint64_t i = 0; i < count && outcome.ok(); ++i) {
      outcome = Device::Of(places[i].device)->card().Activate();
      if (outcome.ok()) outcome = library.Join(std::string(sdk::ToText(token)), places[i].rank, size, &joined[i]);
    }
    const Outcome ended = library.EndGroup();
    if (outcome.ok()) outcome = ended;
    for (uint64_t i = 0; i < count && outcome.ok(); ++i) out_communicators[i] = new tenon_communicator{Device::Of(places[i].device)->shared_from_this(), joined[i]};
    return outcome;
  });
}

void End(tenon_communicator* communicator, void (CommunicatorLibrary::*end)(Communicator) const) {
  if (communicator == nullptr) return;
  const std::unique_ptr<tenon_communicator> own(communicator);
  Collectives& collectives = own->device->system().collectives();
  const std::lock_guard lock(collectives.mutex());
  (void)own->device->card().Activate();
  (collectives.library().*end)(own->communicator);
}
void Leave(tenon_communicator* communicator) { End(communicator, &CommunicatorLibrary::Leave); }
void Abort(tenon_communicator* communicator) { End(communicator, &CommunicatorLibrary::Abort); }

Outcome CheckCalls(const tenon_collective_call* calls, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    const Device& device = Queue::Of(calls[i].queue)->device();
    if (&device != calls[i].communicator->device.get()) {
      return Fault(TENON_INVALID_ARGUMENT, "call ", i, " has a queue of ", device.name(), " and a communicator of ",
                   calls[i].communicator->device->name());
    }
    if (calls[i].submission->must_understand != 0) return Fault(TENON_UNIMPLEMENTED, "a submission with a feature that this plugin does not know");
  }
  return {};
}

// The calls' waits, then the work of all in one group, then what they tell.
template <class Give>
tenon_status* GiveAll(tenon_plugin_self* self, const tenon_collective_call* calls, uint64_t count, Give&& give) {
  return WithLibrary(SystemOf(self), [&](CommunicatorLibrary& library) -> Outcome {
    Outcome outcome = CheckCalls(calls, count);
    const auto nothing = [] { return Outcome(); };
    for (uint64_t i = 0; i < count && outcome.ok(); ++i) {
      tenon_submission waits = *calls[i].submission;
      waits.signal = 0;
      outcome = Queue::Of(calls[i].queue)->Submit(waits, nullptr, nothing);
    }
    if (outcome.ok()) outcome = library.BeginGroup();
    if (!outcome.ok()) return outcome;
    for (uint64_t i = 0; i < count && outcome.ok(); ++i) {
      outcome = calls[i].communicator->device->card().Activate();
      if (outcome.ok()) outcome = give(library, calls[i], Queue::Of(calls[i].queue)->stream());
    }
    const Outcome ended = library.EndGroup();
    if (outcome.ok()) outcome = ended;
    for (uint64_t i = 0; i < count && outcome.ok(); ++i) {
      tenon_submission tells = *calls[i].submission;
      tells.wait_count = 0;
      outcome = Queue::Of(calls[i].queue)->Submit(tells, nullptr, nothing);
    }
    return outcome;
  });
}

tenon_status* AllReduce(tenon_plugin_self* self, const tenon_collective_call* calls, uint64_t count, uint64_t elements, uint32_t dtype, uint32_t reduce) {
  return GiveAll(self, calls, count, [&](CommunicatorLibrary& library, const tenon_collective_call& call, Stream stream) {
    return library.AllReduce(call.communicator->communicator, call.source, call.target, elements, dtype, reduce, stream);
  });
}
tenon_status* AllGather(tenon_plugin_self* self, const tenon_collective_call* calls, uint64_t count, uint64_t elements, uint32_t dtype) {
  return GiveAll(self, calls, count, [&](CommunicatorLibrary& library, const tenon_collective_call& call, Stream stream) {
    return library.AllGather(call.communicator->communicator, call.source, call.target, elements, dtype, stream);
  });
}
tenon_status* Broadcast(tenon_plugin_self* self, const tenon_collective_call* calls, uint64_t count, uint64_t elements, uint32_t dtype, int32_t root) {
  return GiveAll(self, calls, count, [&](CommunicatorLibrary& library, const tenon_collective_call& call, Stream stream) {
    return library.Broadcast(call.communicator->communicator, call.source, call.target, elements, dtype, root, stream);
  });
}

}  // namespace

constinit const tenon_collective kCollective = {TENON_HEAD(tenon_collective), sdk::ToSpan(kDeviceType), MakeToken, Join, Leave, Abort, AllReduce,
                                                AllGather, Broadcast};

}  // namespace tenon::gpu
