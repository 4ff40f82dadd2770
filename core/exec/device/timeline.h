// SPDX-License-Identifier: Apache-2.0
// Timeline: a semaphore of one step and queue, kept by all who may still wait for a point on it.
#ifndef TENON_CORE_EXEC_DEVICE_TIMELINE_H_
#define TENON_CORE_EXEC_DEVICE_TIMELINE_H_

#include <memory>

#include "core/exec/device/device.h"

namespace tenon::exec {

// Any thread.
class Timeline {
 public:
  static Result<std::shared_ptr<Timeline>> Create(const Device* device);
  ~Timeline() {
    TellPlugin(device_->plugin, "semaphore_destroy", [this] { device_->driver->semaphore_destroy(semaphore_); });
  }
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  const Device& device() const { return *device_; }
  tenon_semaphore* semaphore() const { return semaphore_; }
  // The value reached, and the failure if there is one.
  Status Query(uint64_t* value) const {
    return CallPlugin(device_->plugin, "semaphore_query", [&] { return device_->driver->semaphore_query(semaphore_, value); });
  }
  void Fail(Status status) const {
    TellPlugin(device_->plugin, "semaphore_fail", [&] { device_->driver->semaphore_fail(semaphore_, status.release()); });
  }

 private:
  Timeline(const Device* device, tenon_semaphore* semaphore) : device_(device), semaphore_(semaphore) {}
  const Device* device_;
  tenon_semaphore* semaphore_;
};

// When a variable's last write is done.
struct WritePoint {
  std::shared_ptr<Timeline> timeline;
  uint64_t value = 0;
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_DEVICE_TIMELINE_H_
