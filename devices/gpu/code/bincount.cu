// SPDX-License-Identifier: Apache-2.0
#include "code/bincount.h"

#include "code/each.h"

namespace tenon::gpu {

// What the i-th value adds to a bin, *bin; false: nothing.
template <class T>
TENON_GPU_FUNCTION bool BinOf(const BincountParams& p, int64_t i, int64_t* bin, T* value) {
  *bin = IndexOf(p.values, i);
  if (*bin < 0) Report(p.site, i, *bin, 0);
  if (*bin < 0 || *bin >= p.bins) return false;
  *value = p.weights == nullptr ? T(1) : static_cast<const T*>(p.weights)[i];
  return true;
}

template <class T>
TENON_GPU_FUNCTION void Bincount(const BincountParams& p) {
  ForEachIndex(p.count, [&]<class Index>(Index i) {
    int64_t bin;
    T value;
    if (!BinOf(p, static_cast<int64_t>(i), &bin, &value)) return;
    T* const at = static_cast<T*>(p.out) + static_cast<int64_t>(Quotient(i, p.columns)) * p.bins + bin;
    if (p.binary != 0) AtomicChange(at, [](T) { return T(1); });
    else AtomicAdd(at, value);
  });
}

template <class T>
TENON_GPU_FUNCTION void BincountShared(const BincountParams& p) {
  TENON_GPU_SHARED(T, own, kSharedBins);
  for (int64_t bin = BlockThread(); bin < p.bins; bin += BlockThreads()) own[bin] = T(0);
  Barrier();
  for (int64_t i = Thread(); i < p.count; i += Threads()) {
    int64_t bin;
    T value;
    if (BinOf(p, i, &bin, &value)) AtomicAdd(&own[bin], value);
  }
  Barrier();
  for (int64_t bin = BlockThread(); bin < p.bins; bin += BlockThreads()) {
    if (own[bin] != T(0)) AtomicAdd(static_cast<T*>(p.out) + bin, own[bin]);
  }
}

#define TENON_GPU_BINCOUNT(suffix, T)                              \
  TENON_GPU_KERNEL(Bincount_##suffix, BincountParams, Bincount<T>) \
  TENON_GPU_BLOCK_KERNEL(BincountShared_##suffix, BincountParams, BincountShared<T>)
TENON_GPU_BINCOUNT(f32, float)
TENON_GPU_BINCOUNT(f64, double)
TENON_GPU_BINCOUNT(i32, int32_t)
TENON_GPU_BINCOUNT(i64, int64_t)

}  // namespace tenon::gpu
