// SPDX-License-Identifier: Apache-2.0
// What the kernels share: their device, the addresses of their views, and how a run becomes work on the frame's queue.
//
// run() resolves addresses, submits and returns; the work keeps no pointer into the frame. A failure that shows later is
// handed on by the queue (queue.h).
#ifndef TENON_DEVICES_TPU_SIM_KERNELS_KERNEL_H_
#define TENON_DEVICES_TPU_SIM_KERNELS_KERNEL_H_

#include <memory>
#include <utility>

#include "driver.h"
#include "tenon/sdk/kernel.h"

namespace tenon::tpu_sim {

class DeviceKernel {
 public:
  explicit DeviceKernel(sdk::CreateContext& c) {
    if (c.args().device == nullptr) sdk::Fail(TENON_FAILED_PRECONDITION, c.op(), " runs on a TPU; it was created without a device");
    device_ = c.args().device->device;
  }
  const Machine& machine() const { return device_->options().machine; }
  const Device& device() const { return *device_; }

  // Where the view's elements are, for work of this device.
  template <class T = char>
  T* Address(const tenon_tensor_view& view, const char* what) const {
    Place place;
    const Outcome outcome = device_->Find(view.memory_kind, sdk::Data<const char>(view), view.byte_size, what, &place);
    if (!outcome.ok()) sdk::Fail(outcome.code, outcome.message);
    if (view.byte_size != 0 && place.device != device_) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "the ", what, " of a kernel on ", device_->name(), " is in the memory of ",
                place.device == nullptr ? "the host" : place.device->name().c_str());
    }
    return reinterpret_cast<T*>(place.address);
  }

  static void SubmitTo(const sdk::RunContext& c, Work work) {
    if (c.frame()->queue == nullptr) sdk::Fail(TENON_FAILED_PRECONDITION, work.name, " runs on a TPU; its frame has no queue");
    const Outcome outcome = Submit(c.frame()->queue, std::move(work));
    if (!outcome.ok()) sdk::Fail(outcome.code, outcome.message);
  }

 private:
  std::shared_ptr<Device> device_;
};

}  // namespace tenon::tpu_sim

#endif  // TENON_DEVICES_TPU_SIM_KERNELS_KERNEL_H_
