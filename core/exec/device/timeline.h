// SPDX-License-Identifier: Apache-2.0
// Timeline: a semaphore of one step and queue, kept by all who may still wait for a point on it.
#ifndef TENON_CORE_EXEC_DEVICE_TIMELINE_H_
#define TENON_CORE_EXEC_DEVICE_TIMELINE_H_

#include <memory>

#include "core/base/status.h"
#include "tenon/device.h"

namespace tenon::exec {

struct Device;

// Any thread.
class Timeline {
 public:
  static Result<std::shared_ptr<Timeline>> Create(const Device* device);
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  const Device& device() const { return *device_; }
  tenon_semaphore* semaphore() const { return semaphore_; }
  // The value reached, and the failure if there is one.
  Status Query(uint64_t* value) const;
  void Fail(Status status) const;

 private:
  Timeline(const Device* device, tenon_semaphore* semaphore) : device_(device), semaphore_(semaphore) {}
  const Device* device_;
  tenon_semaphore* semaphore_;
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_DEVICE_TIMELINE_H_
