// SPDX-License-Identifier: Apache-2.0
// Copies between devices of different drivers, as plugins bring them (tenon/ext/draft/device_copy.h), and the pairs of
// a session's devices that one reaches.
#ifndef TENON_CORE_EXEC_DEVICE_DEVICE_COPY_H_
#define TENON_CORE_EXEC_DEVICE_DEVICE_COPY_H_

#include <memory>
#include <string>
#include <vector>

#include "core/exec/device/device.h"
#include "tenon/ext/draft/device_copy.h"

namespace tenon::exec {

// Who holds one keeps its plugin loaded (Runtime::LiveObjects).
struct DeviceCopy {
  std::string plugin;
  const tenon_device_copy* table = nullptr;
  tenon_plugin_self* self = nullptr;
};

struct DevicePair {
  const Device* source = nullptr;
  const Device* target = nullptr;
  std::shared_ptr<const DeviceCopy> copy;
};

// The pairs among these devices, of different drivers and with memory of their own, that one of the copies reaches.
std::vector<DevicePair> FindPairs(const std::vector<const Device*>& devices,
                                  const std::vector<std::shared_ptr<const DeviceCopy>>& copies);

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_DEVICE_DEVICE_COPY_H_
