// SPDX-License-Identifier: Apache-2.0
// The CPU as a device: synchronous, one memory kind "host", type "CPU". There is one, or as many as option "devices"
// says: names for the same cores and memory, for graphs that were placed on several, and for tests.
//
// Memory is 64-byte aligned. Blocks of kLargeBlock and more are aligned to huge pages, ask for them, and are touched
// before they are handed out, so that no step takes a page fault on them.
#ifndef TENON_DEVICES_CPU_DEVICE_H_
#define TENON_DEVICES_CPU_DEVICE_H_

#include <cstdint>

#include "tenon/plugin.h"

// What load() keeps of the options.
struct tenon_plugin_self {
  uint32_t devices = 1;
};

namespace tenon::cpu {

inline constexpr uint64_t kAlignment = 64;
inline constexpr uint64_t kLargeBlock = UINT64_C(2) << 20;

extern const tenon_device_driver kDeviceDriver;
extern const tenon_kernel_package kKernelPackage;

inline constexpr uint64_t kOptionCount = 1;
extern const tenon_option_declaration kOptionDeclarations[kOptionCount];
tenon_status* OnLoad(const tenon_load_args* args, tenon_plugin_self** out_self);
void OnUnload(tenon_plugin_self* self);

}  // namespace tenon::cpu

#endif  // TENON_DEVICES_CPU_DEVICE_H_
