// SPDX-License-Identifier: Apache-2.0
#include "core/exec/device.h"

#include <algorithm>

#include "tenon/ext/draft/native_handle.h"

namespace tenon::exec {

namespace {
constexpr uint32_t kMaxComputeQueues = 8;
}  // namespace

Result<std::shared_ptr<DeviceQueues>> DeviceQueues::Open(const Device& device) {
  std::shared_ptr<DeviceQueues> queues(new DeviceQueues(device.driver));
  const uint32_t count = std::clamp(device.properties.compute_queues, 1u, kMaxComputeQueues) + 2;
  for (uint32_t i = 0; i < count; ++i) {
    tenon_queue* queue = nullptr;
    Status status(device.driver->queue_create(device.handle, 0, &queue));
    if (!status.ok()) return std::move(status).Annotate(StrCat("a queue of ", device.name));
    queues->queues_.push_back(queue);
  }
  return queues;
}

DeviceQueues::~DeviceQueues() {
  for (tenon_queue* queue : queues_) driver_->queue_destroy(queue);
}

std::string DeviceQueues::NameOf(int i) const {
  if (i == copy_in()) return "copy in";
  if (i == copy_out()) return "copy out";
  return StrCat("compute ", i);
}

Status WaitForStream(const Device& device, void* stream) {
  const auto* const native = device.queues == nullptr ? nullptr : ExtensionOf<tenon_native_handle>(device, TENON_EXTENSION_NATIVE_HANDLE);
  if (native == nullptr || native->wait_for == nullptr)
    return Unimplemented(StrCat(device.name, " has no native streams to wait for; let the host wait for what the tensor comes from"));
  for (int i = 0; i < device.queues->size(); ++i) {
    Status status(native->wait_for(device.queues->queue(i), stream));
    if (!status.ok()) return std::move(status).Annotate(StrCat(device.queues->NameOf(i), " of ", device.name));
  }
  return Status::Ok();
}

}  // namespace tenon::exec
