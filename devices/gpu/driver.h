// SPDX-License-Identifier: Apache-2.0
// The C tables of a GPU plugin over System, Device, Queue and Timeline; the last three are what the host has handles
// of. Each plugin (devices/cuda, devices/rocm, the emulation) is these objects, its vendor's Runtime, and a plugin.cc.
#ifndef TENON_DEVICES_GPU_DRIVER_H_
#define TENON_DEVICES_GPU_DRIVER_H_

#include <memory>
#include <vector>

#include "device.h"
#include "queue.h"
#include "tenon/ext/draft/collective.h"
#include "tenon/plugin.h"

struct tenon_captured_graph {
  std::shared_ptr<tenon::gpu::Device> device;
  tenon::gpu::CapturedGraph graph;
  std::vector<std::shared_ptr<tenon::gpu::Kept>> kept;
};

namespace tenon::gpu {

inline constexpr char kDeviceType[] = "GPU";

extern const tenon_device_driver kDeviceDriver;
extern const tenon_kernel_package kKernelPackage;
extern const tenon_collective kCollective;

// Whose handles the host has, for the tables of tenon/sdk/device.
struct Handles {
  using Device = gpu::Device;
  using Queue = gpu::Queue;
  using Timeline = gpu::Timeline;
  static bool Knows(const Queue& queue, const Timeline& timeline) {
    return &timeline.device().system() == &queue.device().system();
  }
};

// What a plugin's functions get as self.
inline std::shared_ptr<System>& SystemOf(tenon_plugin_self* self) {
  return *reinterpret_cast<std::shared_ptr<System>*>(self);
}

// The device, when this library opened it: several plugins may offer GPUs side by side. NULL for those of others.
Device* OwnDevice(const tenon_device* device);

tenon_status* LoadPlugin(const tenon_load_args* args, const tenon_option_declaration* declarations,
                         uint64_t declaration_count, tenon_plugin_self** out_self);
void UnloadPlugin(tenon_plugin_self* self);

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_DRIVER_H_
