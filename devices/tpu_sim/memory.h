// SPDX-License-Identifier: Apache-2.0
// DeviceMemory: the memory of one device, and its allocator (first fit, freed neighbours join).
//
// An address that the host gets is one of a reserved range. With the guard nothing is mapped there, so that a host
// which reads it faults; the device's threads use a second mapping of the same memory, and Resolve turns an address
// into theirs. Without the guard both are the same range. Thread-safe.
#ifndef TENON_DEVICES_TPU_SIM_MEMORY_H_
#define TENON_DEVICES_TPU_SIM_MEMORY_H_

#include <cstdint>
#include <map>
#include <mutex>

#include "outcome.h"

namespace tenon::tpu_sim {

inline constexpr uint64_t kAlignment = 256;
inline constexpr uint64_t kMostAlignment = UINT64_C(2) << 20;

class DeviceMemory {
 public:
  DeviceMemory() = default;
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  Outcome Open(uint64_t bytes, bool guard);
  // NULL when there is no such block; alignment is a power of two up to kMostAlignment.
  void* Allocate(uint64_t bytes, uint64_t alignment);
  // False when it is no block of this memory.
  bool Release(void* data);

  bool Contains(const void* address) const;
  // The address for the device's own threads; NULL unless all bytes lie in one living block.
  char* Resolve(const void* address, uint64_t bytes) const;
  // The same, with the guard; without it the block is not looked up, which kernels are spared.
  char* Locate(const void* address, uint64_t bytes) const {
    if (file_ >= 0) return Resolve(address, bytes);
    const char* at = static_cast<const char*>(address);
    const bool inside = Contains(at) && bytes <= bytes_ - OffsetOf(at);
    return inside ? const_cast<char*>(at) : nullptr;
  }
  uint64_t bytes() const { return bytes_; }
  uint64_t used() const;
  uint64_t largest_free() const;

 private:
  uint64_t OffsetOf(const void* address) const {
    return static_cast<uint64_t>(static_cast<const char*>(address) - host_base_);
  }

  uint64_t bytes_ = 0;
  char* host_base_ = nullptr;
  char* device_base_ = nullptr;
  int file_ = -1;  // with the guard
  mutable std::mutex mutex_;
  std::map<uint64_t, uint64_t> free_, used_;  // offset -> bytes
  uint64_t used_bytes_ = 0;
};

// Memory that host and device see, up to a limit. Thread-safe.
class StagingMemory {
 public:
  explicit StagingMemory(uint64_t limit) : limit_(limit) {}
  ~StagingMemory();
  void* Allocate(uint64_t bytes, uint64_t alignment);
  bool Release(void* data);
  bool Contains(const void* address, uint64_t bytes) const;
  uint64_t used() const;

 private:
  const uint64_t limit_;
  mutable std::mutex mutex_;
  std::map<char*, uint64_t> blocks_;
  uint64_t used_ = 0;
};

}  // namespace tenon::tpu_sim

#endif  // TENON_DEVICES_TPU_SIM_MEMORY_H_
