// SPDX-License-Identifier: Apache-2.0
// WritePoint: where on a queue's timeline a write ends.
#ifndef TENON_CORE_EXEC_DEVICE_WRITE_POINT_H_
#define TENON_CORE_EXEC_DEVICE_WRITE_POINT_H_

#include <cstdint>
#include <memory>

namespace tenon::exec {

class Timeline;

// When a variable's last write is done.
struct WritePoint {
  std::shared_ptr<Timeline> timeline;
  uint64_t value = 0;
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_DEVICE_WRITE_POINT_H_
