// SPDX-License-Identifier: Apache-2.0
#include "code/unique.h"

#include "code/chosen.h"

namespace tenon::gpu {

// The same for values that are equal: -0 is 0.
template <class T>
TENON_GPU_FUNCTION uint64_t BitsOf(T value) {
  using Bits = std::conditional_t<
      sizeof(T) == 1, uint8_t,
      std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;
  return static_cast<Wide<T>>(value) == Wide<T>(0) ? 0 : __builtin_bit_cast(Bits, value);
}
// What is lower already is not written again: many elements come for few values.
TENON_GPU_FUNCTION void Lower(uint32_t* at, uint32_t value) {
  for (uint32_t old = Observe(at); value < old;) {
    const uint32_t seen = CompareAndSwap(at, old, value);
    if (seen == old) return;
    old = seen;
  }
}

template <class T>
TENON_GPU_FUNCTION void ClaimUnique(const UniqueParams& p) {
  const T* x = static_cast<const T*>(p.x);
  for (int64_t i = Thread(); i < p.count; i += Threads()) {
    const Wide<T> value = x[i];
    p.slots[i] = kNoSlot;
    if (value != value) continue;
    const uint64_t bits = BitsOf(x[i]);
    uint64_t hash = bits * UINT64_C(0x9E3779B97F4A7C15);
    hash ^= hash >> 32;
    const auto place = static_cast<uint32_t>(i);
    for (auto slot = static_cast<uint32_t>(hash);; ++slot) {  // ends: the table has more slots than there are elements
      slot &= p.mask;
      uint32_t seen = Observe(&p.taken[slot]);
      if (seen == 0) seen = CompareAndSwap(&p.taken[slot], 0, place + 1);
      if (seen != 0 && BitsOf(x[seen - 1]) != bits) continue;
      Lower(&p.first[slot], place);
      p.slots[i] = slot;
      break;
    }
  }
}

TENON_GPU_FUNCTION bool IsFirst(const UniqueParams& p, int64_t i) {
  const uint32_t slot = p.slots[i];
  return slot == kNoSlot || p.first[slot] == static_cast<uint32_t>(i);
}
TENON_GPU_FUNCTION void CountUnique(const UniqueParams& p) {
  CountChosen(p.count, p.sums, [&](int64_t i) { return IsFirst(p, i); });
}

TENON_GPU_FUNCTION void PutNumber(const UniqueParams& p, int64_t i, int64_t number) {
  if (p.index_bytes == 8) static_cast<int64_t*>(p.numbers)[i] = number;
  else static_cast<int32_t*>(p.numbers)[i] = static_cast<int32_t>(number);
}
template <class T>
TENON_GPU_FUNCTION void NumberUnique(const UniqueParams& p) {
  ForEachRanked(
      p.count, p.sums, [&](int64_t i) { return IsFirst(p, i); },
      [&](int64_t i, bool is_first, int64_t number) {
        if (!is_first) return;
        static_cast<T*>(p.values)[number] = static_cast<const T*>(p.x)[i];
        if (p.slots[i] == kNoSlot) PutNumber(p, i, number);
        else p.taken[p.slots[i]] = static_cast<uint32_t>(number);
      });
}

TENON_GPU_FUNCTION void PutUnique(const UniqueParams& p) {
  for (int64_t i = Thread(); i < p.count; i += Threads()) {
    const uint32_t slot = p.slots[i];
    if (slot != kNoSlot) PutNumber(p, i, p.taken[slot]);
    if (p.counts == nullptr) continue;
    if (p.index_bytes == 8) {
      AtomicAdd(&static_cast<uint64_t*>(p.counts)[static_cast<const int64_t*>(p.numbers)[i]], uint64_t{1});
    } else {
      AtomicAdd(&static_cast<uint32_t*>(p.counts)[static_cast<const int32_t*>(p.numbers)[i]], uint32_t{1});
    }
  }
}

TENON_GPU_BLOCK_KERNEL(UniqueCount, UniqueParams, CountUnique)
TENON_GPU_KERNEL(UniquePut, UniqueParams, PutUnique)
#define TENON_GPU_UNIQUE(suffix, T)                                    \
  TENON_GPU_KERNEL(UniqueClaim_##suffix, UniqueParams, ClaimUnique<T>) \
  TENON_GPU_BLOCK_KERNEL(UniqueNumber_##suffix, UniqueParams, NumberUnique<T>)
TENON_GPU_UNIQUE(u8, uint8_t)
TENON_GPU_UNIQUE(u16, uint16_t)
TENON_GPU_UNIQUE(u32, uint32_t)
TENON_GPU_UNIQUE(u64, uint64_t)
TENON_GPU_UNIQUE(f32, float)
TENON_GPU_UNIQUE(f64, double)
TENON_GPU_UNIQUE(f16, Half)
TENON_GPU_UNIQUE(bf16, Bfloat16)

}  // namespace tenon::gpu
