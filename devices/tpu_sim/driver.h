// SPDX-License-Identifier: Apache-2.0
// The plugin's tables, and what its handles are.
#ifndef TENON_DEVICES_TPU_SIM_DRIVER_H_
#define TENON_DEVICES_TPU_SIM_DRIVER_H_

#include <memory>

#include "device.h"
#include "tenon/plugin.h"

struct tenon_device {
  std::shared_ptr<tenon::tpu_sim::Device> device;
};
struct tenon_queue {
  std::shared_ptr<tenon::tpu_sim::Queue> queue;
};
struct tenon_semaphore {
  tenon::tpu_sim::Timeline timeline;
};

namespace tenon::tpu_sim {

inline constexpr char kDeviceType[] = "TPU";

extern const tenon_device_driver kDeviceDriver;
extern const tenon_kernel_package kKernelPackage;

}  // namespace tenon::tpu_sim

#endif  // TENON_DEVICES_TPU_SIM_DRIVER_H_
