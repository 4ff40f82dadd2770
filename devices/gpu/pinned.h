// SPDX-License-Identifier: Apache-2.0
// PinnedMemory: the pinned memory of one GPU (a caching host allocator). The driver is asked for it, and given it back,
// while nothing waits for the caller: both may wait there until the whole GPU is idle, and so for streams that wait for
// what the caller does next.
//
// Free() never calls the driver: what is freed is given to the next who asks for about as much. Allocate() calls it
// where nothing that was freed fits, without a lock; who holds one, or is in a queue's turn, uses what was allocated
// before.
#ifndef TENON_DEVICES_GPU_PINNED_H_
#define TENON_DEVICES_GPU_PINNED_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "runtime.h"

namespace tenon::gpu {

class PinnedMemory {
 public:
  explicit PinnedMemory(Card& card) : card_(card) {}
  // Gives all of it back to the driver. The GPU is the calling thread's.
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  // 256-byte aligned. The GPU is the calling thread's.
  Outcome Allocate(uint64_t bytes, void** out_data);
  void Free(void* data);

 private:
  // What a piece of so many bytes takes: sizes in few steps, so that freed pieces fit.
  static uint64_t SizeOf(uint64_t bytes);
  // Large pieces are the driver's, and go back when more is idle than kMostIdle and it has to be called anyway.
  std::vector<void*> TakeIdle(uint64_t keep);

  Card& card_;
  std::mutex mutex_;
  std::map<uint64_t, std::vector<void*>> free_;  // by size
  std::unordered_map<void*, uint64_t> sizes_;    // of all pieces
  std::vector<void*> slabs_;                     // that small pieces are cut from
  char* slab_ = nullptr;                         // what is left of the last one
  uint64_t slab_left_ = 0, idle_large_ = 0;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_PINNED_H_
