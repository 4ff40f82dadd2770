// SPDX-License-Identifier: Apache-2.0
// Record: a FaultRecord of a device, and where streams wait for its word.
//
// Host and kernels read the word in the record, in pinned memory. Streams wait for that very word, or where their
// driver wants other memory for it (Card::AllocateWaited) for a copy there, which whoever writes the word writes after
// it: who waited for the copy finds the word. Owned by the device that gave it (Device::NewRecord). Words are atomic,
// all else is the owner's to guard.
#ifndef TENON_DEVICES_GPU_RECORD_H_
#define TENON_DEVICES_GPU_RECORD_H_

#include <cstdint>

#include "code/fault.h"
#include "runtime.h"

namespace tenon::gpu {

struct Record {
  FaultRecord* fault = nullptr;
  uint64_t* waited = nullptr;  // the word in it, or the copy

  uint64_t word() const { return __atomic_load_n(&fault->word, __ATOMIC_ACQUIRE); }
  bool has_copy() const { return waited != &fault->word; }
  // By the host.
  void Set(uint64_t value) const {
    __atomic_store_n(&fault->word, value, __ATOMIC_RELEASE);
    if (has_copy()) __atomic_store_n(waited, value, __ATOMIC_RELEASE);
  }
  // For a new user, while no stream knows of it.
  void Reset(uint64_t value) const {
    *fault = {};
    Set(value);
  }
  // By the stream, in its order.
  Outcome Write(Card& card, uint64_t value, Stream stream) const {
    Outcome outcome = card.WriteWord(&fault->word, value, stream);
    return outcome.ok() && has_copy() ? card.WriteWord(waited, value, stream) : outcome;
  }
  // The same where only streams ask: they write and wait for one word.
  Outcome Tell(Card& card, uint64_t value, Stream stream) const { return card.WriteWord(waited, value, stream); }
  Outcome Await(Card& card, uint64_t at_least, Stream stream) const {
    return card.WaitForWord(waited, at_least, stream);
  }
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_RECORD_H_
