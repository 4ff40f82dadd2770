// SPDX-License-Identifier: Apache-2.0
// A grid on the host: the functions of code/grid.h for device code that the host's compiler has compiled.
//
// A kernel without barriers runs as a loop over its threads. The threads of a block that meet are fibers of one thread
// of the host, which go on in turn from barrier to barrier. Under ThreadSanitizer every thread of the grid is a fiber
// that it knows of: two threads that touch the same memory without a barrier between them are reported as they would be
// on a GPU.
#ifndef TENON_DEVICES_GPU_EMULATION_GRID_H_
#define TENON_DEVICES_GPU_EMULATION_GRID_H_

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#define TENON_GPU_FUNCTION inline
#define TENON_GPU_UNROLL(count)
#define TENON_GPU_UNROLL_ALL
// Memory of the running block, found by the place in the source; the function's template arguments make it another
// place.
#define TENON_GPU_SHARED(type, name, count)                          \
  static const int name##_place = ::tenon::gpu::NewSharedPlace();    \
  type* const name = static_cast<type*>(::tenon::gpu::SharedMemory(name##_place, sizeof(type) * (count)))
#define TENON_GPU_KERNEL(symbol, Params, ...) TENON_GPU_EMULATED_KERNEL(symbol, false, Params, __VA_ARGS__)
#define TENON_GPU_BLOCK_KERNEL(symbol, Params, ...) TENON_GPU_EMULATED_KERNEL(symbol, true, Params, __VA_ARGS__)
#define TENON_GPU_BLOCK_KERNEL_OF(most_threads, symbol, Params, ...) TENON_GPU_BLOCK_KERNEL(symbol, Params, __VA_ARGS__)
#if defined(TENON_GPU_LOADED)  // a library of its own, compiled at run time
#define TENON_GPU_EMULATED_KERNEL(symbol, meets, Params, ...)                                              \
  extern "C" __attribute__((visibility("default"))) const bool symbol##_meets = meets;                     \
  extern "C" __attribute__((visibility("default"))) const uint64_t symbol##_params_bytes = sizeof(Params); \
  extern "C" __attribute__((visibility("default"))) void symbol(const void* params,                        \
                                                                ::tenon::gpu::EmulatedThread* at) {        \
    ::tenon::gpu::emulated_thread = at;                                                                    \
    __VA_ARGS__(*static_cast<const Params*>(params));                                                      \
  }
#else
#define TENON_GPU_EMULATED_KERNEL(symbol, meets, Params, ...)                                                        \
  static const ::tenon::gpu::EmulatedKernel emulated_##symbol(                                                       \
      #symbol, meets, sizeof(Params),                                                                                \
      [](const void* params, ::tenon::gpu::EmulatedThread*) { __VA_ARGS__(*static_cast<const Params*>(params)); });
#endif

namespace tenon::gpu {

// Where the running thread stands.
struct EmulatedThread {
  uint32_t thread = 0, threads = 1;
  uint32_t block[3] = {0, 0, 0};
  uint32_t blocks[3] = {1, 1, 1};
};
#if defined(TENON_GPU_LOADED)
inline thread_local EmulatedThread* emulated_thread = nullptr;
#else
extern constinit thread_local EmulatedThread* emulated_thread;
#endif

// A kernel; by its name, if it is one of this library. Lives as long as the library.
class EmulatedKernel {
 public:
  using Body = void (*)(const void* params, EmulatedThread* at);
  EmulatedKernel(const char* name, bool meets, size_t params_bytes, Body body);
  static const EmulatedKernel* Find(const char* name);

  const char* name() const { return name_; }
  size_t params_bytes() const { return params_bytes_; }
  // Runs the whole grid on this thread. "" or why it could not: threads of a block that wait for each other for ever.
  std::string Run(const uint32_t blocks[3], uint32_t threads, const void* params) const;

 private:
  const char* name_;
  const bool meets_;
  const size_t params_bytes_;
  const Body body_;
};

int NewSharedPlace();
void* SharedMemory(int place, size_t bytes);
// The value that thread (lane ^ mask), or (lane - by), of this warp has given; both meet the warp.
void ShuffleBytes(void* value, size_t bytes, uint32_t from_lane);

inline uint32_t BlockThread() { return emulated_thread->thread; }
inline uint32_t BlockThreads() { return emulated_thread->threads; }
inline uint32_t BlockX() { return emulated_thread->block[0]; }
inline uint32_t BlockY() { return emulated_thread->block[1]; }
inline uint32_t BlockZ() { return emulated_thread->block[2]; }
inline uint32_t BlocksX() { return emulated_thread->blocks[0]; }
void Barrier();

template <class T>
T ShuffleXor(T value, uint32_t mask) {
  ShuffleBytes(&value, sizeof value, (BlockThread() % 32) ^ mask);
  return value;
}
template <class T>
T ShuffleUp(T value, uint32_t by) {
  const uint32_t lane = BlockThread() % 32;
  ShuffleBytes(&value, sizeof value, lane >= by ? lane - by : lane);
  return value;
}
inline void DeviceFence() {
#if defined(__SANITIZE_THREAD__)
  // Which does not know of fences alone.
  static std::atomic<int> fence{0};
  fence.fetch_add(0, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}
template <class Word>
Word Observe(const Word* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
inline void Publish(uint64_t* word, uint64_t value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }

inline uint32_t CompareAndSwap(uint32_t* at, uint32_t expected, uint32_t desired) {
  __atomic_compare_exchange_n(at, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
inline uint64_t CompareAndSwap(uint64_t* at, uint64_t expected, uint64_t desired) {
  __atomic_compare_exchange_n(at, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
inline uint64_t Exchange(uint64_t* at, uint64_t value) { return __atomic_exchange_n(at, value, __ATOMIC_ACQ_REL); }
inline uint32_t AtomicAdd(uint32_t* at, uint32_t value) { return __atomic_fetch_add(at, value, __ATOMIC_RELAXED); }
inline uint64_t AtomicAdd(uint64_t* at, uint64_t value) { return __atomic_fetch_add(at, value, __ATOMIC_RELAXED); }

}  // namespace tenon::gpu

#if defined(TENON_GPU_LOADED)
#include "emulation/loaded.h"
#endif

#endif  // TENON_DEVICES_GPU_EMULATION_GRID_H_
