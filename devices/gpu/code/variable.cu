// SPDX-License-Identifier: Apache-2.0
#include "code/variable.h"

#include "code/grid.h"
#include "code/pack.h"
#include "tenon/extras/kernel/update.h"

namespace tenon::gpu {

template <class T, bool kSubtract>
TENON_GPU_FUNCTION void Accumulate(const AccumulateParams& p) {
  const T* from = static_cast<const T*>(p.from);
  const T* delta = static_cast<const T*>(p.delta);
  T* to = static_cast<T*>(p.to);
  for (int64_t i = Thread(); i < p.count; i += Threads()) to[i] = sdk::AddOrSubtract<kSubtract>(from[i], delta[i]);
}

// ---- Optimizers ----

template <class Optimizer, class T, class Params>
TENON_GPU_FUNCTION typename Optimizer::template Step<Wide<T>> StepOf(const Params& p) {
  Wide<T> scalars[ApplyParams<Optimizer>::kScalars];
  for (int i = 0; i < ApplyParams<Optimizer>::kScalars; ++i) {
    const bool counts = (p.counts >> i & 1) != 0;
    scalars[i] = counts ? static_cast<Wide<T>>(static_cast<float>(*static_cast<const int64_t*>(p.scalars[i])))
                        : static_cast<Wide<T>>(*static_cast<const T*>(p.scalars[i]));
  }
  return typename Optimizer::template Step<Wide<T>>(p.optimizer, scalars);
}
template <class Optimizer, class T, class Params, class Step>
TENON_GPU_FUNCTION void StepAt(const Params& p, const Step& step, int64_t at, T gradient) {
  constexpr int kVariables = Optimizer::kVariables;
  Wide<T> v[kVariables];
  for (int k = 0; k < kVariables; ++k) v[k] = static_cast<Wide<T>>(static_cast<const T*>(p.from[k])[at]);
  step(v, static_cast<Wide<T>>(gradient));
  for (int k = 0; k < kVariables; ++k) static_cast<T*>(p.to[k])[at] = static_cast<T>(v[k]);
}

// Whether a scalar is bad, which one thread reports: the same for all threads.
template <class Optimizer, class Step>
TENON_GPU_FUNCTION bool IsBad(const ApplyParams<Optimizer>& p, const Step& step) {
  if constexpr (requires { step.BadScalar(); }) {
    const int bad = step.BadScalar();
    if (bad >= 0 && Thread() == 0) Report(p.bad_scalars[bad], bad, 0, 0);
    return bad >= 0;
  }
  return false;
}

template <class Optimizer, class T>
TENON_GPU_FUNCTION void Apply(const ApplyParams<Optimizer>& p) {
  const auto step = StepOf<Optimizer, T>(p);
  if (IsBad(p, step)) return;
  const T* gradient = static_cast<const T*>(p.gradient);
  for (int64_t i = Thread(); i < p.count; i += Threads()) StepAt<Optimizer>(p, step, i, gradient[i]);
}

// nvcc makes four stores of it.
template <class T>
TENON_GPU_FUNCTION void StorePack(Pack<T>* to, const Pack<T>& pack) {
#if defined(__CUDACC__)
  struct Words {
    uint32_t at[4];
  };
  const auto words = __builtin_bit_cast(Words, pack);
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(words.at[0]), "r"(words.at[1]),
               "r"(words.at[2]), "r"(words.at[3])
               : "memory");
#else
  *to = pack;
#endif
}

// The same for a pack of elements, all of which is loaded before any of it is stored.
template <class Optimizer, class T, class Item, class Step>
TENON_GPU_FUNCTION void StepAtPack(const Item& item, const Step& step, int64_t at) {
  constexpr int kVariables = Optimizer::kVariables;
  const Pack<T> gradient = *reinterpret_cast<const Pack<T>*>(static_cast<const T*>(item.gradient) + at);
  Pack<T> from[kVariables], to[kVariables];
  TENON_GPU_UNROLL_ALL
  for (int k = 0; k < kVariables; ++k)
    from[k] = *reinterpret_cast<const Pack<T>*>(static_cast<const T*>(item.from[k]) + at);
  TENON_GPU_UNROLL_ALL
  for (int i = 0; i < Pack<T>::kCount; ++i) {
    Wide<T> v[kVariables];
    for (int k = 0; k < kVariables; ++k) v[k] = static_cast<Wide<T>>(from[k].at[i]);
    step(v, static_cast<Wide<T>>(gradient.at[i]));
    for (int k = 0; k < kVariables; ++k) to[k].at[i] = static_cast<T>(v[k]);
  }
  TENON_GPU_UNROLL_ALL
  for (int k = 0; k < kVariables; ++k) StorePack(reinterpret_cast<Pack<T>*>(static_cast<T*>(item.to[k]) + at), to[k]);
}

template <class Optimizer, class T>
TENON_GPU_FUNCTION void ApplyMany(const ApplyManyParams<Optimizer>& p) {
  const auto step = StepOf<Optimizer, T>(p);
  int32_t at = 0;
  for (int64_t chunk = BlockX(); chunk < p.chunks; chunk += BlocksX()) {
    while (at + 1 < p.items && p.item[at + 1].first_chunk <= chunk) ++at;
    const auto item = p.item[at];
    const T* gradient = static_cast<const T*>(item.gradient);
    int64_t begin = (chunk - item.first_chunk) * kApplyChunk;
    const int64_t end = begin + kApplyChunk < item.count ? begin + kApplyChunk : item.count;
    bool even = IsEven(gradient, gradient);
    for (int k = 0; k < Optimizer::kVariables; ++k) even = even && IsEven(item.from[k], item.to[k]);
    if (even) {
      const int64_t last = begin + (end - begin) / Pack<T>::kCount * Pack<T>::kCount;
      for (int64_t i = begin + BlockThread() * Pack<T>::kCount; i < last; i += BlockThreads() * Pack<T>::kCount)
        StepAtPack<Optimizer, T>(item, step, i);
      begin = last;
    }
    for (int64_t i = begin + BlockThread(); i < end; i += BlockThreads()) StepAt<Optimizer>(item, step, i, gradient[i]);
  }
}

// A row belongs to one block, and an element of it to one thread, which goes through the indices in their order:
// nothing has to be sorted, and the result does not depend on timing. Blocks look at all indices, some at a time, and
// pass by those warps' where there is none of theirs.
template <class Optimizer, class T>
TENON_GPU_FUNCTION void SparseApply(const SparseApplyParams<Optimizer>& p) {
  TENON_GPU_SHARED(int64_t, mine, kSparseThreads);
  TENON_GPU_SHARED(uint32_t, found, kSparseThreads / kWarp);
  const auto step = StepOf<Optimizer, T>(p.dense);
  if (IsBad(p.dense, step)) return;
  const T* gradient = static_cast<const T*>(p.dense.gradient);
  for (int64_t begin = 0; begin < p.dense.count; begin += kSparseThreads) {
    const int64_t i = begin + BlockThread();
    int64_t my_row = -1;
    if (i < p.dense.count) {
      const int64_t row =
          p.wide_indices ? static_cast<const int64_t*>(p.indices)[i] : static_cast<const int32_t*>(p.indices)[i];
      if (row < 0 || row >= p.rows) {
        if (BlockX() == 0) Report(p.bad_row, i, row, p.rows);
      } else if (row % BlocksX() == BlockX()) {
        my_row = row;
      }
    }
    const uint32_t any = WarpReduce<uint32_t>(my_row >= 0 ? 1 : 0, [](uint32_t a, uint32_t b) { return a | b; });
    Barrier();  // both may still be read
    mine[BlockThread()] = my_row;
    if (Lane() == 0) found[BlockThread() / kWarp] = any;
    Barrier();
    for (uint32_t warp = 0; warp < kSparseThreads / kWarp; ++warp) {
      if (found[warp] == 0) continue;
      for (uint32_t k = warp * kWarp; k < (warp + 1) * kWarp; ++k) {
        if (mine[k] < 0) continue;
        for (int64_t j = BlockThread(); j < p.row; j += BlockThreads())
          StepAt<Optimizer>(p.dense, step, mine[k] * p.row + j, gradient[(begin + k) * p.row + j]);
      }
    }
  }
}

#define TENON_GPU_SUMS(suffix, T)                                                        \
  TENON_GPU_KERNEL(Accumulate_##suffix, AccumulateParams, Accumulate<T, false>)          \
  TENON_GPU_KERNEL(Deduct_##suffix, AccumulateParams, Accumulate<T, true>)
TENON_GPU_SUMS(f32, float)
TENON_GPU_SUMS(f64, double)
TENON_GPU_SUMS(f16, Half)
TENON_GPU_SUMS(bf16, Bfloat16)
TENON_GPU_SUMS(u8, uint8_t)
TENON_GPU_SUMS(u16, uint16_t)
TENON_GPU_SUMS(u32, uint32_t)
TENON_GPU_SUMS(u64, uint64_t)

#define TENON_GPU_APPLY_WIDE(Name)                                                                 \
  TENON_GPU_KERNEL(Apply##Name##_f32, ApplyParams<sdk::Name>, Apply<sdk::Name, float>)             \
  TENON_GPU_KERNEL(Apply##Name##_f64, ApplyParams<sdk::Name>, Apply<sdk::Name, double>)
#define TENON_GPU_APPLY(Name)                                                                      \
  TENON_GPU_APPLY_WIDE(Name)                                                                       \
  TENON_GPU_KERNEL(Apply##Name##_f16, ApplyParams<sdk::Name>, Apply<sdk::Name, Half>)              \
  TENON_GPU_KERNEL(Apply##Name##_bf16, ApplyParams<sdk::Name>, Apply<sdk::Name, Bfloat16>)
TENON_GPU_DENSE_OPTIMIZERS(TENON_GPU_APPLY)
TENON_GPU_WIDE_OPTIMIZERS(TENON_GPU_APPLY_WIDE)

#define TENON_GPU_APPLY_MANY(Name)                                                             \
  TENON_GPU_BLOCK_KERNEL_OF(kApplyThreads, ApplyMany##Name##_f32, ApplyManyParams<sdk::Name>,  \
                            ApplyMany<sdk::Name, float>)                                       \
  TENON_GPU_BLOCK_KERNEL_OF(kApplyThreads, ApplyMany##Name##_f64, ApplyManyParams<sdk::Name>,  \
                            ApplyMany<sdk::Name, double>)                                      \
  TENON_GPU_BLOCK_KERNEL_OF(kApplyThreads, ApplyMany##Name##_f16, ApplyManyParams<sdk::Name>,  \
                            ApplyMany<sdk::Name, Half>)                                        \
  TENON_GPU_BLOCK_KERNEL_OF(kApplyThreads, ApplyMany##Name##_bf16, ApplyManyParams<sdk::Name>, \
                            ApplyMany<sdk::Name, Bfloat16>)
TENON_GPU_JOINED_OPTIMIZERS(TENON_GPU_APPLY_MANY)

#define TENON_GPU_SPARSE_APPLY_WIDE(Name)                                                                         \
  TENON_GPU_BLOCK_KERNEL(SparseApply##Name##_f32, SparseApplyParams<sdk::Name>, SparseApply<sdk::Name, float>)    \
  TENON_GPU_BLOCK_KERNEL(SparseApply##Name##_f64, SparseApplyParams<sdk::Name>, SparseApply<sdk::Name, double>)
#define TENON_GPU_SPARSE_APPLY(Name)                                                                              \
  TENON_GPU_SPARSE_APPLY_WIDE(Name)                                                                               \
  TENON_GPU_BLOCK_KERNEL(SparseApply##Name##_f16, SparseApplyParams<sdk::Name>, SparseApply<sdk::Name, Half>)     \
  TENON_GPU_BLOCK_KERNEL(SparseApply##Name##_bf16, SparseApplyParams<sdk::Name>, SparseApply<sdk::Name, Bfloat16>)
TENON_GPU_SPARSE_OPTIMIZERS(TENON_GPU_SPARSE_APPLY)
TENON_GPU_WIDE_OPTIMIZERS(TENON_GPU_SPARSE_APPLY_WIDE)

}  // namespace tenon::gpu
