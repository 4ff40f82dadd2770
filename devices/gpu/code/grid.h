// SPDX-License-Identifier: Apache-2.0
// What device code is written in: the same source is compiled by nvcc, by hipcc, and by the host's compiler for a grid
// that runs one thread after the other (emulation/grid.h), so that its arithmetic, edges and races are tested without a
// GPU.
//
//   struct ScaleParams { const float* x; float* y; int64_t count; float factor; };      // plain data, in a header
//   (code/scale.h)
//
//   TENON_GPU_FUNCTION void Scale(const ScaleParams& p) {
//     for (int64_t i = Thread(); i < p.count; i += Threads()) p.y[i] = p.factor * p.x[i];
//   }
//   TENON_GPU_KERNEL(Scale_f32, ScaleParams, Scale)                       // no Barrier() in it; blocks of at most 256
//   threads TENON_GPU_BLOCK_KERNEL(RowSum_f32, RowSumParams, RowSum<float>)       // blocks whose threads meet
//   TENON_GPU_BLOCK_KERNEL_OF(1024, Scan_i64, ScanParams, Scan<int64_t>)  // of at most so many threads, which have
//   fewer registers each; at most kMostThreads
//
// A kernel takes one struct by value (at most 4 kB) and is found by its name. What it computes comes from the constexpr
// headers of tenon/sdk (elementwise.h, optimizer.h, random.h, element.h), which the CPU's kernels use too.
//
// Rules. Grids have one to three dims, blocks one, of kFlatThreads or what is said. Every thread of a block reaches
// every Barrier() and every call of the Shuffle and Block functions. A warp is 32 threads here, whatever the hardware's
// width. Shared memory is declared by TENON_GPU_SHARED at the head of a function. No recursion, no exceptions, no
// allocation; double is allowed.
#ifndef TENON_DEVICES_GPU_CODE_GRID_H_
#define TENON_DEVICES_GPU_CODE_GRID_H_

#include "code/fault.h"
#include "tenon/sdk/kernel/half.h"

#if defined(__HIPCC__)
#include <hip/hip_runtime.h>
#endif

namespace tenon::gpu {

using sdk::Bfloat16;
using sdk::Half;
using sdk::Wide;

inline constexpr uint32_t kWarp = 32;
inline constexpr uint32_t kMostThreads = 1024;

}  // namespace tenon::gpu

#if defined(__CUDACC__) || defined(__HIPCC__)

#define TENON_GPU_FUNCTION __device__ inline
#define TENON_GPU_UNROLL(count) \
  _Pragma(TENON_GPU_TEXT(unroll count))  // before a loop; 1: as it stands, where size matters
#define TENON_GPU_TEXT(words) #words
#define TENON_GPU_UNROLL_ALL _Pragma("unroll")  // before a loop whose array is to stay in registers
#define TENON_GPU_SHARED(type, name, count) __shared__ type name[count]
#define TENON_GPU_KERNEL(symbol, Params, ...) \
  extern "C" __global__ void __launch_bounds__(256, 1) symbol(const Params params) { __VA_ARGS__(params); }
#define TENON_GPU_BLOCK_KERNEL(symbol, Params, ...) TENON_GPU_KERNEL(symbol, Params, __VA_ARGS__)
#define TENON_GPU_BLOCK_KERNEL_OF(most_threads, symbol, Params, ...) \
  extern "C" __global__ void __launch_bounds__(most_threads) symbol(const Params params) { __VA_ARGS__(params); }

namespace tenon::gpu {

TENON_GPU_FUNCTION uint32_t BlockThread() { return threadIdx.x; }
TENON_GPU_FUNCTION uint32_t BlockThreads() { return blockDim.x; }
TENON_GPU_FUNCTION uint32_t BlockX() { return blockIdx.x; }
TENON_GPU_FUNCTION uint32_t BlockY() { return blockIdx.y; }
TENON_GPU_FUNCTION uint32_t BlockZ() { return blockIdx.z; }
TENON_GPU_FUNCTION uint32_t BlocksX() { return gridDim.x; }
TENON_GPU_FUNCTION void Barrier() { __syncthreads(); }

#if defined(__HIPCC__)
template <class T>
TENON_GPU_FUNCTION T ShuffleXor(T value, uint32_t mask) { return __shfl_xor(value, static_cast<int>(mask), 32); }
template <class T>
TENON_GPU_FUNCTION T ShuffleUp(T value, uint32_t by) { return __shfl_up(value, by, 32); }
#else
template <class T>
TENON_GPU_FUNCTION T ShuffleXor(T value, uint32_t mask) {
  return __shfl_xor_sync(0xffffffffu, value, static_cast<int>(mask));
}
template <class T>
TENON_GPU_FUNCTION T ShuffleUp(T value, uint32_t by) { return __shfl_up_sync(0xffffffffu, value, by); }
#endif
TENON_GPU_FUNCTION void DeviceFence() { __threadfence(); }

// A word that others write meanwhile.
template <class Word>
TENON_GPU_FUNCTION Word Observe(const Word* word) { return *const_cast<const volatile Word*>(word); }
// For whoever sees the value, the host too, what was written before is there.
TENON_GPU_FUNCTION void Publish(uint64_t* word, uint64_t value) {
  __threadfence_system();
  *const_cast<volatile uint64_t*>(word) = value;
  __threadfence_system();
}

TENON_GPU_FUNCTION uint32_t CompareAndSwap(uint32_t* at, uint32_t expected, uint32_t desired) {
  return atomicCAS(at, expected, desired);
}
TENON_GPU_FUNCTION uint64_t CompareAndSwap(uint64_t* at, uint64_t expected, uint64_t desired) {
  return atomicCAS(reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(expected),
                   static_cast<unsigned long long>(desired));
}
TENON_GPU_FUNCTION uint64_t Exchange(uint64_t* at, uint64_t value) {
  return atomicExch(reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(value));
}
TENON_GPU_FUNCTION uint32_t AtomicAdd(uint32_t* at, uint32_t value) { return atomicAdd(at, value); }
TENON_GPU_FUNCTION uint64_t AtomicAdd(uint64_t* at, uint64_t value) {
  return atomicAdd(reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(value));
}
TENON_GPU_FUNCTION void AtomicAdd(float* at, float value) { atomicAdd(at, value); }
TENON_GPU_FUNCTION void AtomicAdd(double* at, double value) { atomicAdd(at, value); }

}  // namespace tenon::gpu

#else

#include "emulation/grid.h"

#endif

namespace tenon::gpu {

// ---- Where a thread stands ----

// Number of the thread in the first dim of the grid, and how many there are.
TENON_GPU_FUNCTION int64_t Thread() { return static_cast<int64_t>(BlockX()) * BlockThreads() + BlockThread(); }
TENON_GPU_FUNCTION int64_t Threads() { return static_cast<int64_t>(BlocksX()) * BlockThreads(); }
TENON_GPU_FUNCTION uint32_t Lane() { return BlockThread() % kWarp; }

// ---- Read, change, write, as one: of any element type and any change(old) ----

// Elements of 4 or 8 bytes, or of less within an aligned word of 4.
template <class T, class Change>
TENON_GPU_FUNCTION void AtomicChange(T* at, const Change& change) {
  if constexpr (sizeof(T) >= 4) {
    using Word = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    auto* word = reinterpret_cast<Word*>(at);
    Word old = Observe(word);
    while (true) {
      const Word seen = CompareAndSwap(word, old, __builtin_bit_cast(Word, change(__builtin_bit_cast(T, old))));
      if (seen == old) return;
      old = seen;
    }
  } else {
    using Part = std::conditional_t<sizeof(T) == 1, uint8_t, uint16_t>;
    const auto address = reinterpret_cast<uintptr_t>(at);
    auto* word = reinterpret_cast<uint32_t*>(address & ~uintptr_t{3});
    const uint32_t shift = static_cast<uint32_t>(address & 3) * 8;
    const uint32_t mask = static_cast<uint32_t>(static_cast<Part>(~Part{0})) << shift;
    uint32_t old = Observe(word);
    while (true) {
      const auto part = __builtin_bit_cast(Part, change(__builtin_bit_cast(T, static_cast<Part>(old >> shift))));
      const uint32_t seen = CompareAndSwap(word, old, (old & ~mask) | static_cast<uint32_t>(part) << shift);
      if (seen == old) return;
      old = seen;
    }
  }
}
// Halves are added as floats; integers wrap.
template <class T>
TENON_GPU_FUNCTION void AtomicAdd(T* at, T value) {
  AtomicChange(at, [value](T old) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(old) + static_cast<std::make_unsigned_t<T>>(value));
    } else {
      return static_cast<T>(static_cast<Wide<T>>(old) + static_cast<Wide<T>>(value));
    }
  });
}

TENON_GPU_FUNCTION void AtomicAdd(int32_t* at, int32_t value) {
  AtomicAdd(reinterpret_cast<uint32_t*>(at), static_cast<uint32_t>(value));
}
TENON_GPU_FUNCTION void AtomicAdd(int64_t* at, int64_t value) {
  AtomicAdd(reinterpret_cast<uint64_t*>(at), static_cast<uint64_t>(value));
}

// ---- Threads that work together ----

// combine over the 32 threads of a warp; every thread gets it. Of numbers of 4 or 8 bytes.
template <class T, class Combine>
TENON_GPU_FUNCTION T WarpReduce(T value, const Combine& combine) {
  for (uint32_t mask = kWarp / 2; mask > 0; mask /= 2) value = combine(value, ShuffleXor(value, mask));
  return value;
}
// The same over a block of whole warps; every thread gets it. The order is fixed: the same bits every time.
template <class T, class Combine>
TENON_GPU_FUNCTION T BlockReduce(T value, T identity, const Combine& combine) {
  TENON_GPU_SHARED(T, of_warps, kWarp);
  value = WarpReduce(value, combine);
  Barrier();  // of_warps may still be read by a call before
  if (Lane() == 0) of_warps[BlockThread() / kWarp] = value;
  Barrier();
  value = Lane() < BlockThreads() / kWarp ? of_warps[Lane()] : identity;
  return WarpReduce(value, combine);
}

// ---- Failures ----

// Says that the data is bad: `position` is where, `value` what stands there, `limit` what it has to be below. The first
// to say so on a timeline is heard; the kernel goes on, and must not use the value.
TENON_GPU_FUNCTION void Report(const FaultSite& site, int64_t position, int64_t value, int64_t limit) {
  const uint64_t record = Observe(&site.control->record);
  if (record == 0 || Exchange(&site.control->claimed, record) == record) return;
  auto* out = reinterpret_cast<FaultRecord*>(record);
  out->position = position;
  out->value = value;
  out->limit = limit;
  out->site = site.number;
  out->reached = Observe(&out->word);
  Publish(&out->state, kFaulted);
}

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_GRID_H_
