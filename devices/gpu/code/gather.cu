// SPDX-License-Identifier: Apache-2.0
#include "code/gather.h"

#include "code/apply.h"
#include "code/each.h"
#include "code/move.h"

namespace tenon::gpu {

template <class T>
TENON_GPU_FUNCTION void Gather(const GatherParams& p) {
  ForEach(static_cast<T*>(p.out), p.total, [&]<class Index>(Index i, int64_t* to) {
    *to = static_cast<int64_t>(i);
    const int64_t column = TakeDim(&i, p.inner), place = TakeDim(&i, p.count), outer = TakeDim(&i, p.outer);
    const auto batch = static_cast<int64_t>(i);
    const int64_t position = batch * p.count.size + place, row = IndexOf(p.indices, position);
    if (row < 0 || row >= p.rows) {
      if (column == 0 && outer == 0) Report(p.site, position, row, p.rows);
      return T{};
    }
    return static_cast<const T*>(p.params)[((batch * p.outer.size + outer) * p.rows + row) * p.inner.size + column];
  });
}

// The number of the slice that is named i-th; -1: there is none.
TENON_GPU_FUNCTION int64_t SliceAt(const Slices& s, int64_t i, bool reports) {
  int64_t at = 0;
  TENON_GPU_ROLLED for (int d = 0; d < s.depth; ++d) {
    const int64_t index = IndexOf(s.indices, i * s.depth + d);
    if (index < 0 || index >= s.dims[d]) {
      const bool is_bad = s.bad == BadIndices::kReported || (s.bad == BadIndices::kNegativesIgnored && index >= 0);
      if (is_bad && reports) Report(s.site, i, index, s.dims[d]);
      return -1;
    }
    at = at * s.dims[d] + index;
  }
  return at;
}

template <class T>
TENON_GPU_FUNCTION void GatherNd(const GatherNdParams& p) {
  ForEach(static_cast<T*>(p.out), p.total, [&]<class Index>(Index i, int64_t* to) {
    *to = static_cast<int64_t>(i);
    const int64_t column = TakeDim(&i, p.inner), at = SliceAt(p.slices, static_cast<int64_t>(i), column == 0);
    return at < 0 ? T{} : static_cast<const T*>(p.params)[at * p.inner.size + column];
  });
}

// ---- Updates that come in any order ----

template <class T>
TENON_GPU_FUNCTION T Negative(T x) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(x));
  } else {
    return static_cast<T>(-static_cast<Wide<T>>(x));
  }
}

struct Adding {
  template <class T>
  TENON_GPU_FUNCTION static void Change(T* at, T value) { AtomicAdd(at, value); }
};
struct Subtracting {
  template <class T>
  TENON_GPU_FUNCTION static void Change(T* at, T value) { AtomicAdd(at, Negative(value)); }
};
template <bool kLargest>
struct Bounding {
  template <class T>
  TENON_GPU_FUNCTION static void Change(T* at, T value) {
    AtomicChange(at, [value](T old) {
      const Wide<T> x = old, y = value;
      return (kLargest ? x < y : y < x) ? value : old;
    });
  }
};

// Largest and least as ops of two tensors have them: a NaN on either side stays.
template <bool kLargest>
struct Extremum {
  template <class T>
  TENON_GPU_FUNCTION static void Change(T* at, T value) {
    AtomicChange(
        at, [value](T old) { return kLargest ? Of(sdk::MaximumOp(), old, value) : Of(sdk::MinimumOp(), old, value); });
  }
};
struct Multiplying {
  template <class T>
  TENON_GPU_FUNCTION static void Change(T* at, T value) {
    AtomicChange(at, [value](T old) { return Of(sdk::MulOp(), old, value); });
  }
};
template <bool kAnyDivisor>
struct Dividing {
  template <class T>
  TENON_GPU_FUNCTION static void Change(T* at, T value) {
    AtomicChange(at, [value](T old) { return Of(sdk::DivOp(), old, value); });
  }
  template <class T>
  TENON_GPU_FUNCTION static bool IsBad(T value) {
    return (std::is_integral_v<T> || !kAnyDivisor) && static_cast<Wide<T>>(value) == Wide<T>(0);
  }
};

template <class How, class T>
concept Refuses = requires(T value) { How::IsBad(value); };

template <class How, class T>
TENON_GPU_FUNCTION void Scatter(const ScatterParams& p) {
  ForEachIndex(p.total, [&]<class Index>(Index i) {
    const auto from = static_cast<int64_t>(i);
    const int64_t column = TakeDim(&i, p.inner), at = SliceAt(p.slices, static_cast<int64_t>(i), column == 0);
    if (at < 0) return;
    const T value = static_cast<const T*>(p.updates)[p.one_for_all != 0 ? 0 : from];
    if constexpr (Refuses<How, T>) {
      if (How::IsBad(value)) return Report(p.bad_value, from, 0, 0);
    }
    How::Change(static_cast<T*>(p.out) + at * p.inner.size + column, value);
  });
}

// ---- Updates of which the last one counts ----

TENON_GPU_FUNCTION void ClaimSlots(const ClaimParams& p) {
  constexpr uint64_t kFree = ~UINT64_C(0);
  for (int64_t i = Thread(); i < p.count; i += Threads()) {
    const int64_t at = SliceAt(p.slices, i, true);
    p.slots[i] = -1;
    if (at < 0) continue;
    const auto key = static_cast<uint64_t>(at);
    uint64_t slot = key * UINT64_C(0x9E3779B97F4A7C15);
    slot = (slot ^ slot >> 32) & p.mask;
    while (true) {  // ends: the table has more slots than there are updates
      const uint64_t seen = CompareAndSwap(&p.keys[slot], kFree, key);
      if (seen == kFree || seen == key) break;
      slot = (slot + 1) & p.mask;
    }
    AtomicChange(&p.last[slot],
                 [i](uint64_t old) { return old > static_cast<uint64_t>(i) ? old : static_cast<uint64_t>(i) + 1; });
    p.slots[i] = static_cast<int64_t>(slot);
  }
}

template <class T>
TENON_GPU_FUNCTION void ScatterPut(const PutParams& p) {
  ForEachIndex(p.total, [&]<class Index>(Index i) {
    const auto from = static_cast<int64_t>(i);
    const int64_t column = TakeDim(&i, p.inner), slot = p.slots[i];
    if (slot < 0 || p.last[slot] != static_cast<uint64_t>(i) + 1) return;
    const T value = static_cast<const T*>(p.updates)[p.repeated == 0 ? from : column % p.repeated];
    static_cast<T*>(p.out)[static_cast<int64_t>(p.keys[slot]) * p.inner.size + column] = value;
  });
}

#define TENON_GPU_GATHERS(bytes, Unit)                             \
  TENON_GPU_KERNEL(Gather_##bytes, GatherParams, Gather<Unit>)       \
  TENON_GPU_KERNEL(GatherNd_##bytes, GatherNdParams, GatherNd<Unit>) \
  TENON_GPU_KERNEL(ScatterPut_##bytes, PutParams, ScatterPut<Unit>)
TENON_GPU_GATHERS(1, uint8_t)
TENON_GPU_GATHERS(2, uint16_t)
TENON_GPU_GATHERS(4, uint32_t)
TENON_GPU_GATHERS(8, uint64_t)
TENON_GPU_GATHERS(16, Aligned16)

TENON_GPU_KERNEL(ScatterClaim, ClaimParams, ClaimSlots)
#define TENON_GPU_SCATTERS(suffix, T)                                           \
  TENON_GPU_KERNEL(ScatterAdd_##suffix, ScatterParams, Scatter<Adding, T>)      \
  TENON_GPU_KERNEL(ScatterSub_##suffix, ScatterParams, Scatter<Subtracting, T>) \
  TENON_GPU_KERNEL(ScatterMin_##suffix, ScatterParams, Scatter<Bounding<false>, T>) \
  TENON_GPU_KERNEL(ScatterMax_##suffix, ScatterParams, Scatter<Bounding<true>, T>) \
  TENON_GPU_KERNEL(ScatterMul_##suffix, ScatterParams, Scatter<Multiplying, T>)     \
  TENON_GPU_KERNEL(ScatterDiv_##suffix, ScatterParams, Scatter<Dividing<false>, T>) \
  TENON_GPU_KERNEL(ScatterAnyDiv_##suffix, ScatterParams, Scatter<Dividing<true>, T>) \
  TENON_GPU_KERNEL(ScatterMinimum_##suffix, ScatterParams, Scatter<Extremum<false>, T>) \
  TENON_GPU_KERNEL(ScatterMaximum_##suffix, ScatterParams, Scatter<Extremum<true>, T>)
TENON_GPU_SCATTERS(f32, float)
TENON_GPU_SCATTERS(f64, double)
TENON_GPU_SCATTERS(f16, Half)
TENON_GPU_SCATTERS(bf16, Bfloat16)
TENON_GPU_SCATTERS(i32, int32_t)
TENON_GPU_SCATTERS(i64, int64_t)

}  // namespace tenon::gpu
