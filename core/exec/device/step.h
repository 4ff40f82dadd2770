// SPDX-License-Identifier: Apache-2.0
// Step: one run of a plan.
#ifndef TENON_CORE_EXEC_DEVICE_STEP_H_
#define TENON_CORE_EXEC_DEVICE_STEP_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/exec/device/resources.h"

namespace tenon::trace {
class Trace;
}

namespace tenon::exec {

class Rendezvous;
struct Environment;

struct Step {
  const Environment* env = nullptr;
  Cancellation* cancellation = nullptr;
  trace::Trace* trace = nullptr;
  uint64_t id = 0;
  Rendezvous* rendezvous = nullptr;  // of a part: where it meets the others
  uint64_t host_waits = 0;  // for devices
  uint64_t captured_launches = 0;
  std::mutex mutex;  // guards local_resources
  std::vector<std::unique_ptr<Resource>> local_resources;
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_DEVICE_STEP_H_
