// SPDX-License-Identifier: Apache-2.0
// The plugin's tables, and how kernels give work to a queue.
//
//   Work work;
//   work.name = "Relu";
//   work.unit = Unit::kCompute;
//   work.cost = VectorCycles(machine, n, 4 * n, 4 * n);
//   work.run = [=] { ...; return Outcome(); };   // on the queue's thread
//   return ToStatus(Submit(frame->queue, std::move(work)));
//
// An address of a view is turned with Device::Find before; the work must not touch the frame, which is gone when it runs.
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
  std::shared_ptr<tenon::tpu_sim::Timeline> timeline;
  std::shared_ptr<tenon::tpu_sim::System> system;
};

namespace tenon::tpu_sim {

inline constexpr char kDeviceType[] = "TPU";

extern const tenon_device_driver kDeviceDriver;
extern const tenon_kernel_package kKernelPackage;

inline Outcome Submit(tenon_queue* queue, Work work) { return queue->queue->Submit(std::move(work)); }

}  // namespace tenon::tpu_sim

#endif  // TENON_DEVICES_TPU_SIM_DRIVER_H_
