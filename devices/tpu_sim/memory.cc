// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace tenon::tpu_sim {
namespace {

// Freed blocks of this size and more give their pages back.
constexpr uint64_t kLargeBlock = UINT64_C(1) << 20;
constexpr uint64_t kPage = 4096;

uint64_t RoundUp(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

DeviceMemory::~DeviceMemory() {
  if (device_base_ != nullptr && device_base_ != host_base_) munmap(device_base_, bytes_);
  if (host_base_ != nullptr) munmap(host_base_, bytes_ + kMostAlignment);
  if (file_ >= 0) close(file_);
}

Outcome DeviceMemory::Open(uint64_t bytes, bool guard) {
  bytes_ = RoundUp(bytes, kPage);
  const auto failed = [&](const char* what) {
    return Fault(TENON_RESOURCE_EXHAUSTED, "no ", bytes_, " bytes of address space for device memory: ", what, ": ",
                 std::strerror(errno));
  };
  // A little more than asked for, so that offsets and addresses are aligned alike.
  const int protection = guard ? PROT_NONE : PROT_READ | PROT_WRITE;
  void* reserved =
      mmap(nullptr, bytes_ + kMostAlignment, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return failed("mmap");
  host_base_ = static_cast<char*>(reserved);
  device_base_ = host_base_;
  if (guard) {
    file_ = memfd_create("tenon_tpu_sim", MFD_CLOEXEC);
    if (file_ < 0 || ftruncate(file_, static_cast<off_t>(bytes_)) != 0) return failed("memfd_create");
    void* mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_, 0);
    if (mapped == MAP_FAILED) return failed("mmap of the second mapping");
    device_base_ = static_cast<char*>(mapped);
  }
  free_.emplace(0, bytes_);
  return {};
}

void* DeviceMemory::Allocate(uint64_t bytes, uint64_t alignment) {
  if (bytes > bytes_) return nullptr;
  bytes = RoundUp(std::max<uint64_t>(bytes, 1), kAlignment);
  alignment = std::max(alignment, kAlignment);
  const uint64_t base = reinterpret_cast<uint64_t>(host_base_);
  const std::lock_guard lock(mutex_);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const uint64_t begin = RoundUp(base + it->first, alignment) - base;
    const uint64_t end = it->first + it->second;
    if (begin >= end || end - begin < bytes) continue;
    const uint64_t front = it->first;
    free_.erase(it);
    if (begin > front) free_.emplace(front, begin - front);
    if (end > begin + bytes) free_.emplace(begin + bytes, end - begin - bytes);
    used_.emplace(begin, bytes);
    used_bytes_ += bytes;
    return host_base_ + begin;
  }
  return nullptr;
}

bool DeviceMemory::Release(void* data) {
  if (!Contains(data)) return false;
  const std::lock_guard lock(mutex_);
  const auto block = used_.find(OffsetOf(data));
  if (block == used_.end()) return false;
  auto [begin, size] = *block;
  used_.erase(block);
  used_bytes_ -= size;
  if (size >= kLargeBlock) {
    const uint64_t first = RoundUp(begin, kPage), last = (begin + size) / kPage * kPage;
    // A hint: where it does not work the pages stay.
    if (file_ >= 0) {
      (void)fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first),
                      static_cast<off_t>(last - first));
    } else {
      (void)madvise(device_base_ + first, last - first, MADV_DONTNEED);
    }
  }
  auto next = free_.lower_bound(begin);
  if (next != free_.end() && begin + size == next->first) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == begin) {
      before->second += size;
      return true;
    }
  }
  free_.emplace(begin, size);
  return true;
}

bool DeviceMemory::Contains(const void* address) const {
  const auto at = reinterpret_cast<uint64_t>(address), base = reinterpret_cast<uint64_t>(host_base_);
  return at >= base && at < base + bytes_;
}

char* DeviceMemory::Resolve(const void* address, uint64_t bytes) const {
  if (!Contains(address)) return nullptr;
  const uint64_t offset = OffsetOf(address);
  const std::lock_guard lock(mutex_);
  auto block = used_.upper_bound(offset);
  if (block == used_.begin()) return nullptr;
  --block;
  const uint64_t end = block->first + block->second;
  return offset < end && bytes <= end - offset ? device_base_ + offset : nullptr;
}

uint64_t DeviceMemory::used() const {
  const std::lock_guard lock(mutex_);
  return used_bytes_;
}

uint64_t DeviceMemory::largest_free() const {
  const std::lock_guard lock(mutex_);
  uint64_t most = 0;
  for (const auto& [offset, size] : free_) most = std::max(most, size);
  return most;
}

StagingMemory::~StagingMemory() {
  for (const auto& [data, bytes] : blocks_) std::free(data);
}

void* StagingMemory::Allocate(uint64_t bytes, uint64_t alignment) {
  if (bytes > limit_) return nullptr;
  bytes = RoundUp(std::max<uint64_t>(bytes, 1), kAlignment);
  const std::lock_guard lock(mutex_);
  if (bytes > RoundUp(limit_, kAlignment) - used_) return nullptr;
  void* data = nullptr;
  if (posix_memalign(&data, std::max(alignment, kAlignment), bytes) != 0) return nullptr;
  blocks_.emplace(static_cast<char*>(data), bytes);
  used_ += bytes;
  return data;
}

bool StagingMemory::Release(void* data) {
  const std::lock_guard lock(mutex_);
  const auto block = blocks_.find(static_cast<char*>(data));
  if (block == blocks_.end()) return false;
  used_ -= block->second;
  std::free(block->first);
  blocks_.erase(block);
  return true;
}

bool StagingMemory::Contains(const void* address, uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  auto block = blocks_.upper_bound(static_cast<char*>(const_cast<void*>(address)));
  if (block == blocks_.begin()) return false;
  --block;
  const auto offset = static_cast<uint64_t>(static_cast<const char*>(address) - block->first);
  return offset < block->second && bytes <= block->second - offset;
}

uint64_t StagingMemory::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

}  // namespace tenon::tpu_sim
