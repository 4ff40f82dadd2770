// SPDX-License-Identifier: Apache-2.0
#include "staging.h"

#include <algorithm>
#include <cstring>

#include "device.h"

namespace tenon::gpu {

Staging::Staging(Device& device) : device_(device) {}
Staging::~Staging() {
  calls_.Close();
  helper_calls_.Close();
  if (helper_ != nullptr) device_.card().DestroyStream(helper_);
  if (memory_ != nullptr) device_.pinned().Free(memory_);
  for (const Record& record : {begun_, full_, empty_}) {
    if (record.fault != nullptr) device_.ReturnRecord(record);
  }
}

Outcome Staging::Open() {
  Outcome outcome;
  for (Record* record : {&begun_, &full_, &empty_}) {
    if (outcome.ok()) outcome = device_.NewRecord(record);
  }
  void* memory = nullptr;
  if (outcome.ok()) outcome = device_.pinned().Allocate(kPieces * kPiece + kSmall, &memory);
  memory_ = static_cast<char*>(memory);
  return outcome;
}

Outcome Staging::CallHost(char* target, const char* source, uint64_t bytes, HostCalls& calls, Stream stream) {
  const uint64_t call = calls.Add([&device = device_, target, source, bytes] {
    if (!device.BeginHostCopy()) return;
    std::memcpy(target, source, bytes);
    device.EndHostCopy();
  });
  Outcome outcome = device_.card().CallHost(call, stream);
  if (!outcome.ok()) calls.Drop(call);
  return outcome;
}
Outcome Staging::CopyOnHost(char* target, const char* source, uint64_t bytes, Stream stream) {
  return CallHost(target, source, bytes, calls_, stream);
}

// The queue's stream may not wait for what the helper was given of a copy that was not submitted whole: the helper
// leaves it out.
void Staging::NoteEnd(const Outcome& outcome) {
  if (outcome.ok()) return;
  broken_ = true;
  helper_calls_.Close();
}

Outcome Staging::BeginHelper(int32_t priority) {
  return helper_ == nullptr ? device_.card().CreateStream(priority, &helper_) : Outcome();
}

// piece(at, bytes) for each.
template <class Piece>
Outcome Staging::ForPieces(uint64_t bytes, uint64_t most, const Piece& piece) {
  Outcome outcome;
  for (uint64_t done = 0; done < bytes && outcome.ok(); done += most)
    outcome = piece(done, std::min(most, bytes - done));
  return outcome;
}

Outcome Staging::ToDevice(char* target, const char* source, uint64_t bytes, int32_t priority, Stream stream) {
  Card& card = device_.card();
  char* const small = memory_ + kPieces * kPiece;
  if (bytes <= kSmall || broken_) {
    return ForPieces(bytes, kSmall, [&](uint64_t at, uint64_t n) {
      Outcome outcome = CopyOnHost(small, source + at, n, stream);
      return outcome.ok() ? card.Copy(target + at, small, n, stream) : outcome;
    });
  }
  Outcome outcome = BeginHelper(priority);
  if (!outcome.ok()) return outcome;
  // What the stream has before it may make the source.
  outcome = begun_.Tell(card, ++copies_, stream);
  if (outcome.ok()) outcome = begun_.Await(card, copies_, helper_);
  if (outcome.ok()) {
    outcome = ForPieces(bytes, kPiece, [&](uint64_t at, uint64_t n) {
      char* const buffer = BufferOf(pieces_);
      const uint64_t number = ++pieces_;
      Outcome given = number <= kPieces ? Outcome() : empty_.Await(card, number - kPieces, helper_);
      if (given.ok()) given = CallHost(buffer, source + at, n, helper_calls_, helper_);
      if (given.ok()) given = full_.Tell(card, number, helper_);
      if (given.ok()) given = full_.Await(card, number, stream);
      if (given.ok()) given = card.Copy(target + at, buffer, n, stream);
      return given.ok() ? empty_.Tell(card, number, stream) : given;
    });
  }
  NoteEnd(outcome);
  return outcome;
}

Outcome Staging::FromDevice(char* target, const char* source, uint64_t bytes, int32_t priority, Stream stream) {
  Card& card = device_.card();
  char* const small = memory_ + kPieces * kPiece;
  if (bytes <= kSmall || broken_) {
    return ForPieces(bytes, kSmall, [&](uint64_t at, uint64_t n) {
      Outcome outcome = card.Copy(small, source + at, n, stream);
      return outcome.ok() ? CopyOnHost(target + at, small, n, stream) : outcome;
    });
  }
  Outcome outcome = BeginHelper(priority);
  if (!outcome.ok()) return outcome;
  outcome = ForPieces(bytes, kPiece, [&](uint64_t at, uint64_t n) {
    char* const buffer = BufferOf(pieces_);
    const uint64_t number = ++pieces_;
    Outcome given = number <= kPieces ? Outcome() : empty_.Await(card, number - kPieces, stream);
    if (given.ok()) given = card.Copy(buffer, source + at, n, stream);
    if (given.ok()) given = full_.Tell(card, number, stream);
    if (given.ok()) given = full_.Await(card, number, helper_);
    if (given.ok()) given = CallHost(target + at, buffer, n, helper_calls_, helper_);
    return given.ok() ? empty_.Tell(card, number, helper_) : given;
  });
  if (outcome.ok()) outcome = empty_.Await(card, pieces_, stream);
  NoteEnd(outcome);
  return outcome;
}

Outcome Staging::Synchronize() { return helper_ == nullptr ? Outcome() : device_.card().Synchronize(helper_); }

}  // namespace tenon::gpu
