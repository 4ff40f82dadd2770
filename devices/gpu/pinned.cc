// SPDX-License-Identifier: Apache-2.0
#include "pinned.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace tenon::gpu {
namespace {

constexpr uint64_t kLeast = 256, kSlab = UINT64_C(1) << 20, kMostOfSlab = kSlab / 4;
constexpr uint64_t kMostIdle = UINT64_C(256) << 20;  // of large pieces

}  // namespace

// Four steps between powers of two.
uint64_t PinnedMemory::SizeOf(uint64_t bytes) {
  const uint64_t least = std::max(bytes, kLeast);
  const uint64_t step = std::max(kLeast, std::bit_floor(least) / 4);
  return (least + step - 1) / step * step;
}

std::vector<void*> PinnedMemory::TakeIdle(uint64_t keep) {
  std::vector<void*> taken;
  for (auto of_size = free_.rbegin(); of_size != free_.rend() && idle_large_ > keep && of_size->first > kMostOfSlab;
       ++of_size) {
    while (!of_size->second.empty() && idle_large_ > keep) {
      taken.push_back(of_size->second.back());
      of_size->second.pop_back();
      sizes_.erase(taken.back());
      idle_large_ -= of_size->first;
    }
  }
  return taken;
}

Outcome PinnedMemory::Allocate(uint64_t bytes, void** out_data) {
  *out_data = nullptr;
  if (bytes > INT64_MAX) return Fault(TENON_RESOURCE_EXHAUSTED, bytes, " bytes are more than any machine has");
  const uint64_t size = SizeOf(bytes);
  const bool is_large = size > kMostOfSlab;
  std::vector<void*> idle;
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      std::vector<void*>& free = free_[size];
      if (!free.empty()) {
        *out_data = free.back();
        free.pop_back();
        if (is_large) idle_large_ -= size;
      } else if (!is_large && slab_left_ >= size) {
        *out_data = slab_;
        slab_ += size;
        slab_left_ -= size;
        sizes_[*out_data] = size;
      } else if (is_large) {
        idle = TakeIdle(kMostIdle);
      }
    }
    if (*out_data != nullptr) return {};
    for (void* each : idle) card_.FreePinned(each);
    void* made = nullptr;
    Outcome outcome = card_.AllocatePinned(is_large ? size : kSlab, &made);
    if (outcome.code == TENON_RESOURCE_EXHAUSTED) {
      {
        const std::lock_guard lock(mutex_);
        idle = TakeIdle(0);
      }
      for (void* each : idle) card_.FreePinned(each);
      if (!idle.empty()) outcome = card_.AllocatePinned(is_large ? size : kSlab, &made);
    }
    if (!outcome.ok()) return outcome;
    const std::lock_guard lock(mutex_);
    if (is_large) {
      sizes_[made] = size;
      *out_data = made;
      return {};
    }
    // What is left of the slab before is less than was asked for.
    slabs_.push_back(made);
    slab_ = static_cast<char*>(made);
    slab_left_ = kSlab;
  }
}

void PinnedMemory::Free(void* data) {
  const std::lock_guard lock(mutex_);
  const uint64_t size = sizes_.at(data);
  free_[size].push_back(data);
  if (size > kMostOfSlab) idle_large_ += size;
}

PinnedMemory::~PinnedMemory() {
  for (const auto& [data, size] : sizes_) {
    if (size > kMostOfSlab) card_.FreePinned(data);
  }
  for (void* slab : slabs_) card_.FreePinned(slab);
}

}  // namespace tenon::gpu
