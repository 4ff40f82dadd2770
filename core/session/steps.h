// SPDX-License-Identifier: Apache-2.0
// Steps: what the callables of a session share: what its steps run in, and what is counted of them.
#ifndef TENON_CORE_SESSION_STEPS_H_
#define TENON_CORE_SESSION_STEPS_H_

#include <atomic>
#include <cstdint>
#include <mutex>

#include "core/base/cancellation.h"

namespace tenon::exec {
struct Environment;
}

namespace tenon::session {

class Runtime;
class SessionPlacer;

struct Steps {
  Runtime* runtime = nullptr;
  const exec::Environment* env = nullptr;
  SessionPlacer* recorder = nullptr;  // of what traced steps took; nullptr: nobody asks
  std::mutex mutex;  // held by who looks at the contexts of callables, or adds one
  std::atomic<bool> closing{false};
  Cancellation closed;  // cancelled before `closing` is set: why, and the end of what is being planned
  std::atomic<int64_t> active{0};
  std::atomic<uint64_t> ran{0}, next{1}, host_waits{0}, captured_launches{0};
};

}  // namespace tenon::session

#endif  // TENON_CORE_SESSION_STEPS_H_
