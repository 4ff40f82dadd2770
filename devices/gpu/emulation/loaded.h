// SPDX-License-Identifier: Apache-2.0
// How threads of a block meet in a library that is compiled at run time: by the functions of the emulation that opened
// it.
#ifndef TENON_DEVICES_GPU_EMULATION_LOADED_H_
#define TENON_DEVICES_GPU_EMULATION_LOADED_H_

#include <cstddef>
#include <cstdint>

#include "emulation/grid.h"

namespace tenon::gpu {

struct EmulatedMeeting {
  int (*new_shared_place)();
  void* (*shared_memory)(int place, size_t bytes);
  void (*barrier)();
  void (*shuffle_bytes)(void* value, size_t bytes, uint32_t from_lane);
};

#if defined(TENON_GPU_LOADED)
// Filled in by who opens the library.
extern "C" __attribute__((visibility("default"))) EmulatedMeeting tenon_gpu_emulated_meeting;
EmulatedMeeting tenon_gpu_emulated_meeting = {};

inline int NewSharedPlace() { return tenon_gpu_emulated_meeting.new_shared_place(); }
inline void* SharedMemory(int place, size_t bytes) { return tenon_gpu_emulated_meeting.shared_memory(place, bytes); }
// Other threads run meanwhile, and are the running one.
inline void Barrier() {
  EmulatedThread* const self = emulated_thread;
  tenon_gpu_emulated_meeting.barrier();
  emulated_thread = self;
}
inline void ShuffleBytes(void* value, size_t bytes, uint32_t from_lane) {
  EmulatedThread* const self = emulated_thread;
  tenon_gpu_emulated_meeting.shuffle_bytes(value, bytes, from_lane);
  emulated_thread = self;
}
#endif

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_EMULATION_LOADED_H_
