// SPDX-License-Identifier: Apache-2.0
// EmulatedObserver: who is told what the emulated GPUs of this process do, as a driver tells its profiler. An emulated
// profiler of a vendor is one (devices/cuda/emulation/cupti.cc). A library of its own: plugins and emulated libraries
// see nothing of each other.
#ifndef TENON_DEVICES_GPU_EMULATION_OBSERVER_H_
#define TENON_DEVICES_GPU_EMULATION_OBSERVER_H_

#include <cstdint>

namespace tenon::gpu {

// What a GPU does when a stream gets there.
struct EmulatedActivity {
  enum class Kind { kUntold, kKernel, kCopy, kPeerCopy, kFill };  // kUntold: of no interest to a profiler
  Kind kind = Kind::kUntold;
  const char* name = nullptr;  // of a kernel; static
  uint32_t blocks[3] = {1, 1, 1}, threads = 1;
  uint64_t bytes = 0;
  int32_t device = 0;
  bool from_graph = false;
};

class EmulatedObserver {
 public:
  // A call that gives a stream work, or launches a graph, on the thread that makes it. A number for Ran.
  virtual uint32_t Call() = 0;
  // The observer's clock, in nanoseconds.
  virtual uint64_t Now() = 0;
  // On the stream's thread, before what comes after it on the stream.
  virtual void Ran(const EmulatedActivity& activity, uint32_t call, uint64_t begin, uint64_t end) = 0;

 protected:
  ~EmulatedObserver() = default;
};

// NULL: nobody. An observer lives as long as the process.
__attribute__((visibility("default"))) EmulatedObserver* Observer();
__attribute__((visibility("default"))) void SetObserver(EmulatedObserver* observer);

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_EMULATION_OBSERVER_H_
