// SPDX-License-Identifier: Apache-2.0
// What a test sets and sees of the emulated driver (driver.cc): what tenon_emulated_driver() of its library gives.
#ifndef TENON_DEVICES_CUDA_EMULATION_DRIVER_CONTROLS_H_
#define TENON_DEVICES_CUDA_EMULATION_DRIVER_CONTROLS_H_

#include <atomic>
#include <cstdint>

struct EmulatedDriverControls {
  // To set.
  std::atomic<int> lost_as{700};           // the error of a lost GPU: CUDA_ERROR_ILLEGAL_ADDRESS
  std::atomic<bool> is_lost{false};        // all GPUs are, as far as calls tell
  std::atomic<int> capability{80};         // of all GPUs: ten times the major number, and the minor one
  std::atomic<uint64_t> memory_bytes{uint64_t{4} << 30};  // of each GPU; what its pool holds and nobody uses counts too
  std::atomic<int> module_milliseconds{0};  // that loading a module takes: the driver compiles
  std::atomic<bool> holds_copies{false};   // copies that streams come to wait while it is set
  std::atomic<bool> holds_compiler{false};  // NVRTC compiles nothing while it is set
  // To see.
  std::atomic<int> compiling{0};           // programs that NVRTC compiles, or would
  std::atomic<int> channels{0};            // that streams are given to in turn
  std::atomic<uint64_t> waits_for_idle{0};  // calls that waited for everything that any stream had been given
  std::atomic<uint64_t> modules{0}, functions{0};  // that were loaded
  std::atomic<uint64_t> trims{0};          // of pools
  std::atomic<uint64_t> launches{0};       // of kernels one by one, the libraries' too
  std::atomic<uint64_t> graph_launches{0}, graph_nodes{0};  // and what these do, for each launch
  std::atomic<uint64_t> optimizers{0};     // of these and of graphs' kernels, those that apply gradients
  std::atomic<uint64_t> copies{0}, copied_bytes{0};         // one by one
  std::atomic<uint64_t> host_calls{0};     // functions of the host that streams have come to the end of
};

#endif  // TENON_DEVICES_CUDA_EMULATION_DRIVER_CONTROLS_H_
