// SPDX-License-Identifier: Apache-2.0
#include "core/exec/device/timeline.h"

#include "core/base/plugin_call.h"
#include "core/exec/device/device.h"

namespace tenon::exec {

Result<std::shared_ptr<Timeline>> Timeline::Create(const Device* device) {
  tenon_semaphore* semaphore = nullptr;
  Status status = CallPlugin(device->plugin, "semaphore_create",
                             [&] { return device->driver->semaphore_create(device->handle, 0, &semaphore); });
  if (status.ok() && semaphore == nullptr)
    status = Internal(StrCat(DescribePlugin(device->plugin), ": its semaphore_create() gave success and no semaphore"));
  if (!status.ok()) return std::move(status).Annotate(StrCat("a timeline of ", device->name));
  return std::shared_ptr<Timeline>(new Timeline(device, semaphore));
}

Timeline::~Timeline() {
  TellPlugin(device_->plugin, "semaphore_destroy", [this] { device_->driver->semaphore_destroy(semaphore_); });
}

Status Timeline::Query(uint64_t* value) const {
  return CallPlugin(device_->plugin, "semaphore_query",
                    [&] { return device_->driver->semaphore_query(semaphore_, value); });
}

void Timeline::Fail(Status status) const {
  TellPlugin(device_->plugin, "semaphore_fail", [&] { device_->driver->semaphore_fail(semaphore_, status.release()); });
}

}  // namespace tenon::exec
