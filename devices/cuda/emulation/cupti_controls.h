// SPDX-License-Identifier: Apache-2.0
// What a test sets and sees of the emulated CUPTI (cupti.cc): what tenon_emulated_cupti() of its library gives.
#ifndef TENON_DEVICES_CUDA_EMULATION_CUPTI_CONTROLS_H_
#define TENON_DEVICES_CUDA_EMULATION_CUPTI_CONTROLS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

struct EmulatedCuptiControls {
  // To set.
  std::atomic<bool> is_taken{false};      // another subscriber is there
  std::atomic<int> refused_kind{0};       // cannot be enabled; 0: none
  std::atomic<bool> loses{false};         // everything that is recorded, for want of buffers
  std::atomic<size_t> buffer_bytes{SIZE_MAX};  // at most so much of a buffer is used
  // To see.
  std::atomic<int> subscribers{0};
  std::atomic<int> kinds{0};    // that are enabled
  std::atomic<int> open{0};     // numbers that were pushed and not popped
  std::atomic<int> pushes{0};   // ever
  std::atomic<int> buffers{0};  // that were given back
};

#endif  // TENON_DEVICES_CUDA_EMULATION_CUPTI_CONTROLS_H_
