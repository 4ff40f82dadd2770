// SPDX-License-Identifier: Apache-2.0
// DeviceList: the devices that plugins' drivers opened in a runtime, and those that could not be, with why.
#ifndef TENON_CORE_SESSION_DEVICE_LIST_H_
#define TENON_CORE_SESSION_DEVICE_LIST_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/exec/device/device.h"

namespace tenon::session {

struct DeviceChoice {
  std::vector<const exec::Device*> devices;  // the first runs on the host's memory; the others may not
  size_t wished = 0;                         // the one that was asked for
};

// Any thread.
class DeviceList {
 public:
  DeviceList() = default;
  ~DeviceList();
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;

  // Opens what the driver finds; a device that cannot be used is noted with its problem. task: which their names begin
  // with. How many there are.
  uint32_t Open(const tenon_device_driver& driver, tenon_plugin_self* self, const std::string& plugin,
                std::string_view task);
  // Closes and forgets those of a plugin.
  void CloseOf(std::string_view plugin);
  // Whether a device of it works on the host's memory.
  bool HasOnHost(std::string_view plugin) const;
  // Those with a problem too.
  std::vector<exec::Device> All() const;
  // Whether one could not be closed: a thread is in its plugin.
  bool stuck() const { return stuck_.load(); }

  // The devices of a session. wish: a name, a type, or part of a name, or nothing. They live until their plugin's are
  // closed.
  Result<DeviceChoice> Choose(std::string_view wish) const;

 private:
  void Close(exec::Device* device);
  void Add(exec::Device device, std::string_view task);

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<exec::Device>> devices_;
  std::atomic<bool> stuck_{false};
};

}  // namespace tenon::session

#endif  // TENON_CORE_SESSION_DEVICE_LIST_H_
