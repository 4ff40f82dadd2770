// SPDX-License-Identifier: Apache-2.0
// Guards: under AddressSanitizer, bytes between the values of a piece of memory, or behind one that is smaller than its
// piece, that nobody may touch. By itself it knows the ends of what malloc gives, and lets a kernel read its
// neighbour's elements. Otherwise all of it is nothing.
//
// Of host memory alone.
#ifndef TENON_CORE_BASE_GUARD_H_
#define TENON_CORE_BASE_GUARD_H_

#include <cstddef>
#include <cstdint>

#ifdef __SANITIZE_ADDRESS__  // its public interface
extern "C" void __asan_poison_memory_region(const volatile void* data, size_t bytes);
extern "C" void __asan_unpoison_memory_region(const volatile void* data, size_t bytes);
extern "C" int __asan_address_is_poisoned(const volatile void* data);
#endif

namespace tenon {

#ifdef __SANITIZE_ADDRESS__
inline constexpr uint64_t kGuardBytes = 64;
inline void Forbid(const void* data, uint64_t bytes) { __asan_poison_memory_region(data, bytes); }
inline void Permit(const void* data, uint64_t bytes) { __asan_unpoison_memory_region(data, bytes); }
inline bool IsForbidden(const void* data) { return __asan_address_is_poisoned(data) != 0; }
#else
inline constexpr uint64_t kGuardBytes = 0;
inline void Forbid(const void*, uint64_t) {}
inline void Permit(const void*, uint64_t) {}
#endif
inline constexpr bool kGuards = kGuardBytes != 0;

// Of `capacity` bytes the first `bytes` are somebody's.
inline void PermitOnly(const void* data, uint64_t bytes, uint64_t capacity) {
  Permit(data, bytes);
  Forbid(static_cast<const char*>(data) + bytes, capacity - bytes);
}

}  // namespace tenon

#endif  // TENON_CORE_BASE_GUARD_H_
