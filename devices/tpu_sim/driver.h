// SPDX-License-Identifier: Apache-2.0
// The plugin's tables. Its handles are those of Device, Queue and Timeline.
#ifndef TENON_DEVICES_TPU_SIM_DRIVER_H_
#define TENON_DEVICES_TPU_SIM_DRIVER_H_

#include "device.h"
#include "tenon/plugin.h"

namespace tenon::tpu_sim {

inline constexpr char kDeviceType[] = "TPU";

extern const tenon_device_driver kDeviceDriver;
extern const tenon_kernel_package kKernelPackage;

}  // namespace tenon::tpu_sim

#endif  // TENON_DEVICES_TPU_SIM_DRIVER_H_
