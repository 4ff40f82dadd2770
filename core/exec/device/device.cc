// SPDX-License-Identifier: Apache-2.0
#include "core/exec/device/device.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "core/base/log.h"
#include "tenon/ext/draft/native_handle.h"

namespace tenon::exec {

namespace {
constexpr uint32_t kMaxComputeQueues = 8;
constexpr std::chrono::seconds kDestroySeconds(5);
}  // namespace

Result<std::shared_ptr<DeviceQueues>> DeviceQueues::Open(const Device& device) {
  std::shared_ptr<DeviceQueues> queues(new DeviceQueues(device));
  const uint32_t count = std::clamp(device.properties.compute_queues, 1u, kMaxComputeQueues) + 2;
  for (uint32_t i = 0; i < count; ++i) {
    tenon_queue* queue = nullptr;
    Status status = CallPlugin(device.plugin, "queue_create",
                               [&] { return device.driver->queue_create(device.handle, 0, &queue); });
    if (status.ok() && queue == nullptr)
      status = Internal(StrCat(DescribePlugin(device.plugin), ": its queue_create() gave success and no queue"));
    if (!status.ok()) return std::move(status).Annotate(StrCat("a queue of ", device.name));
    queues->queues_.push_back(queue);
  }
  return queues;
}

// A queue whose work never ends would keep whoever closes the device for ever. Then a thread waits for it, alone.
DeviceQueues::~DeviceQueues() {
  if (queues_.empty()) return;
  struct Destroyed {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
  };
  auto destroyed = std::make_shared<Destroyed>();
  std::thread([destroyed, driver = driver_, plugin = plugin_, queues = queues_] {
    for (tenon_queue* queue : queues) TellPlugin(plugin, "queue_destroy", [&] { driver->queue_destroy(queue); });
    std::lock_guard lock(destroyed->mutex);
    destroyed->done = true;
    destroyed->changed.notify_all();
  }).detach();
  std::unique_lock lock(destroyed->mutex);
  if (destroyed->changed.wait_for(lock, kDestroySeconds, [&] { return destroyed->done; })) return;
  stuck_->store(true);
  Log(TENON_LOG_ERROR, StrCat(DescribePlugin(plugin_), ": its queue_destroy() of ", device_,
                              " has not returned within ", kDestroySeconds.count(), " s; the device is left as it is"));
}

std::string DeviceQueues::NameOf(int i) const {
  if (i == copy_in()) return "copy in";
  if (i == copy_out()) return "copy out";
  return StrCat("compute ", i);
}

const void* RawExtensionOf(const Device& device, std::string_view id) {
  if (device.driver->get_extension == nullptr) return nullptr;
  const void* table = nullptr;
  TellPlugin(device.plugin, "get_extension", [&] { table = device.driver->get_extension(device.handle, Span(id)); });
  return table;
}

Status WaitForStream(const Device& device, void* stream) {
  const auto* const native =
      device.queues == nullptr ? nullptr : ExtensionOf<tenon_native_handle>(device, TENON_EXTENSION_NATIVE_HANDLE);
  if (native == nullptr || native->wait_for == nullptr)
    return Unimplemented(
        StrCat(device.name, " has no native streams to wait for; let the host wait for what the tensor comes from"));
  for (int i = 0; i < device.queues->size(); ++i) {
    Status status =
        CallPlugin(device.plugin, "wait_for", [&] { return native->wait_for(device.queues->queue(i), stream); });
    if (!status.ok()) return std::move(status).Annotate(StrCat(device.queues->NameOf(i), " of ", device.name));
  }
  return Status::Ok();
}

}  // namespace tenon::exec
