// SPDX-License-Identifier: Apache-2.0
// What the kernels share: their device, the addresses of their views, and how a run becomes work on the frame's queue.
//
//   void Run(const Plan& plan, sdk::RunContext c) const {
//     const char* x = Input(c, 0);
//     char* y = Output(c, 0);
//     Submit(c, "Relu", plan.cost, [&plan, x, y] { ...; });   // on the queue's thread
//   }
//
// run() resolves addresses, submits and returns. The work may keep the prepared object, which stays until it is done, and
// addresses; nothing of the frame or the kernel. It fails by sdk::Fail, or by giving an Outcome.
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

  // Where the elements of a view are, for work of the device.
  static char* Address(const sdk::RunContext& c, const tenon_tensor_view& view, const char* what, int32_t index) {
    const char* data = sdk::Data<const char>(view);
    if (view.byte_size == 0) return nullptr;
    char* at = c.frame()->device->device->memory().Locate(data, view.byte_size);
    if (at == nullptr) [[unlikely]] Misplaced(c, data, view.byte_size, what, index);
    return at;
  }
  template <class T = char>
  static const T* Input(const sdk::RunContext& c, int32_t index) {
    return reinterpret_cast<const T*>(Address(c, c.input_view(index), "input", index));
  }
  template <class T = char>
  static T* Output(const sdk::RunContext& c, int32_t index) {
    return reinterpret_cast<T*>(Address(c, c.output_view(index), "output", index));
  }

  // op: static text.
  template <class Function>
  static void Submit(const sdk::RunContext& c, const char* op, Cycles cost, Function&& run) {
    const tenon_frame& frame = *c.frame();
    if (frame.queue == nullptr) sdk::Fail(TENON_FAILED_PRECONDITION, op, " runs on a TPU; its frame has no queue");
    cost.stall += frame.device->device->options().launch_cycles;
    const Order order = {.what = op,
                         .kind = "kernel",
                         .unit = Unit::kCompute,
                         .cost = cost,
                         .label = frame.label,
                         .timeline = frame.timeline == nullptr ? nullptr : &frame.timeline->timeline};
    const Outcome outcome = frame.queue->queue->Submit(order, std::forward<Function>(run));
    if (!outcome.ok()) sdk::Fail(outcome.code, outcome.message);
  }

 private:
  [[noreturn, gnu::cold]] static void Misplaced(const sdk::RunContext& c, const void* data, uint64_t bytes, const char* what,
                                                int32_t index) {
    const Device& device = *c.frame()->device->device;
    const std::shared_ptr<Device> owner = device.system().Owner(data);
    sdk::Fail(TENON_INVALID_ARGUMENT, what, " ", index, " of a kernel on ", device.name(), ", of ", bytes, " bytes, is ",
              owner == nullptr ? "no device memory" : owner.get() == &device ? "in no living block" : "in the memory of " + owner->name());
  }

  std::shared_ptr<Device> device_;
};

}  // namespace tenon::tpu_sim

#endif  // TENON_DEVICES_TPU_SIM_KERNELS_KERNEL_H_
