// SPDX-License-Identifier: Apache-2.0
// Devices as the engine sees them: what a driver opened, its queues, and how a session uses it.
//
// A synchronous device runs on the host's memory. An asynchronous one has memory of its own and queues, which all
// steps of all sessions share: the main queue takes whatever touches variables and memory of pools, so that they need
// no waits; further compute queues take independent work; copies have queues of their own, one for each direction.
#ifndef TENON_CORE_EXEC_DEVICE_DEVICE_H_
#define TENON_CORE_EXEC_DEVICE_DEVICE_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "core/base/adopt.h"
#include "core/base/plugin_call.h"
#include "core/exec/device/queue_id.h"
#include "core/tensor/buffer.h"
#include "tenon/device.h"

namespace tenon::exec {

class DeviceQueues;

struct Device {
  std::string name;  // "/job:localhost/replica:0/task:0/device:CPU:0"
  std::string type;
  std::string plugin;
  std::string model;
  std::string problem;  // why there is none
  const tenon_device_driver* driver = nullptr;
  tenon_plugin_self* self = nullptr;
  tenon_device* handle = nullptr;
  tenon_device_properties properties{};
  uint64_t memory_bytes = 0;
  std::string memory_kinds;  // "device, staging"
  bool synchronous = true;
  std::shared_ptr<DeviceQueues> queues;  // of an asynchronous device
};

// The queues of one device. Immutable once open; the driver's queues take work from any thread.
class DeviceQueues {
 public:
  static Result<std::shared_ptr<DeviceQueues>> Open(const Device& device);
  ~DeviceQueues();
  DeviceQueues(const DeviceQueues&) = delete;
  DeviceQueues& operator=(const DeviceQueues&) = delete;

  // The main queue is 0, the other compute queues follow, then copies to the device and from it.
  int size() const { return static_cast<int>(queues_.size()); }
  int compute_count() const { return size() - 2; }
  int copy_in() const { return size() - 2; }
  int copy_out() const { return size() - 1; }
  tenon_queue* queue(int i) const { return queues_[i]; }
  // Whether they could not be destroyed, once they are gone: then the device cannot be closed.
  std::shared_ptr<const std::atomic<bool>> stuck() const { return stuck_; }
  // "compute 0", "copy in".
  std::string NameOf(int i) const;

 private:
  explicit DeviceQueues(const Device& device) : driver_(device.driver), plugin_(device.plugin), device_(device.name) {}
  const tenon_device_driver* driver_;
  const std::string plugin_, device_;  // names, for messages
  const std::shared_ptr<std::atomic<bool>> stuck_ = std::make_shared<std::atomic<bool>>(false);
  std::vector<tenon_queue*> queues_;
};

// What the driver has under that name (ext/); nullptr: it has none.
const void* RawExtensionOf(const Device& device, std::string_view id);
// The same as this host knows T.
template <class T>
const T* ExtensionOf(const Device& device, std::string_view id) {
  const T* const given = static_cast<const T*>(RawExtensionOf(device, id));
  return given == nullptr ? nullptr : Adopt(given);
}

// Lets what is given to the device's queues from now on wait for a native stream (ext/draft/native_handle.h).
// UNIMPLEMENTED without.
Status WaitForStream(const Device& device, void* stream);

// A device as a session uses it.
struct SessionDevice {
  const Device* device = nullptr;
  BufferPool* pool = nullptr;
  int32_t index = 0;        // among the session's devices
  int32_t memory = 0;       // where its values lie: 0 the host's, else `index`
  QueueId first_queue;      // its main queue; none: it has none
  bool one_queue = false;   // all of its work goes to the main queue
  bool queued() const { return bool(first_queue); }
  int32_t compute_count() const { return one_queue ? 1 : device->queues->compute_count(); }
  QueueId copy_in() const { return QueueId(first_queue.number() + (one_queue ? 0 : device->queues->copy_in())); }
  QueueId copy_out() const { return QueueId(first_queue.number() + (one_queue ? 0 : device->queues->copy_out())); }
};

struct SessionQueue {
  tenon_queue* queue = nullptr;
  int32_t device = 0;  // of the session's
};

// The view of memory on that device.
inline void MarkDevice(tenon_tensor_view* view, const Device& device) {
  view->dl.device_type = device.properties.dl_device_type;
  view->dl.device_id = device.properties.dl_device_id;
  view->flags &= ~TENON_VIEW_HOST_VISIBLE;
}
// Whether it says that it lies there; nullptr: in memory that the host reads. One that names no device at all is the
// host's.
inline bool LiesIn(const tenon_tensor_view& view, const Device* device) {
  constexpr uint32_t kHostTypes =
      1u << 0 | 1u << 1 | 1u << 3 | 1u << 11;  // none, and DLPack's CPU, pinned memory of CUDA and of ROCm
  if (device == nullptr)
    return static_cast<uint32_t>(view.dl.device_type) < 32 && ((kHostTypes >> view.dl.device_type) & 1) != 0;
  return view.dl.device_type == device->properties.dl_device_type &&
         view.dl.device_id == device->properties.dl_device_id;
}
inline bool OnHost(const tenon_tensor_view& view) { return (view.flags & TENON_VIEW_HOST_VISIBLE) != 0; }

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_DEVICE_DEVICE_H_
