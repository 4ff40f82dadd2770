// SPDX-License-Identifier: Apache-2.0
// Staging: copies of a queue between the GPU and pageable memory, by way of pinned buffers.
//
// The host fills and empties them in functions of a stream of its own, the helper; the queue's stream copies. Each says
// in a word how many pieces it has done, and waits for the other's, so that the host works on one piece while the GPU
// copies another. What waits is submitted after what it waits for: a driver that runs both streams on one channel comes
// through too. What is small goes through a buffer beside them on the queue's stream alone.
//
// Needs the queue's Turn. Both streams have ended before this goes, or the GPU is lost: copies that the driver still
// calls for are left out.
#ifndef TENON_DEVICES_GPU_STAGING_H_
#define TENON_DEVICES_GPU_STAGING_H_

#include <cstdint>

#include "host_calls.h"
#include "record.h"

namespace tenon::gpu {

class Device;

class Staging {
 public:
  static constexpr uint64_t kPiece = UINT64_C(1) << 20, kSmall = UINT64_C(64) << 10;
  static constexpr uint64_t kPieces = 4;
  explicit Staging(Device& device);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // The pinned memory; before the queue has work.
  Outcome Open();
  // source: pageable, target: the GPU's. Reads it when the stream gets there.
  Outcome ToDevice(char* target, const char* source, uint64_t bytes, int32_t priority, Stream stream);
  // The other way; what the stream does next comes after it.
  Outcome FromDevice(char* target, const char* source, uint64_t bytes, int32_t priority, Stream stream);
  // A copy that the host makes when the stream gets there.
  Outcome CopyOnHost(char* target, const char* source, uint64_t bytes, Stream stream);
  // Waits for the helper, when the queue's stream has ended.
  Outcome Synchronize();

 private:
  char* BufferOf(uint64_t piece) const { return memory_ + piece % kPieces * kPiece; }
  Outcome BeginHelper(int32_t priority);
  Outcome CallHost(char* target, const char* source, uint64_t bytes, HostCalls& calls, Stream stream);
  void NoteEnd(const Outcome& outcome);
  template <class Piece>
  Outcome ForPieces(uint64_t bytes, uint64_t most, const Piece& piece);

  Device& device_;
  Stream helper_ = nullptr;  // made for the first large copy
  char* memory_ = nullptr;   // kPieces of kPiece bytes, and kSmall
  Record begun_, full_, empty_;  // their words: copies that the stream has come to; pieces
  uint64_t copies_ = 0, pieces_ = 0;  // that were submitted
  HostCalls calls_, helper_calls_;  // of the queue's stream, and of the helper
  bool broken_ = false;  // one was submitted in part: the words mean nothing any more
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_STAGING_H_
