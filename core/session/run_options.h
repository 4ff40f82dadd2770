// SPDX-License-Identifier: Apache-2.0
// RunOptions: what one call of a session is asked for.
#ifndef TENON_CORE_SESSION_RUN_OPTIONS_H_
#define TENON_CORE_SESSION_RUN_OPTIONS_H_

#include <cstdint>

namespace tenon {
class Cancellation;
namespace exec {
class Rendezvous;
class Watcher;
}
namespace trace {
class Trace;
}
}  // namespace tenon

namespace tenon::session {

struct RunOptions {
  uint64_t timeout_ns = 0;
  uint64_t asked_ns = 0;  // the timeout that was asked for, where planning has taken some of it; 0: timeout_ns
  Cancellation* cancellation = nullptr;  // the caller's
  trace::Trace* trace = nullptr;
  exec::Watcher* watcher = nullptr;  // FAILED_PRECONDITION unless the session has the option `watch`
  // Of a part (Session::PreparePart): where it meets the others; the feeds are followed by the shapes of what it
  // receives.
  exec::Rendezvous* rendezvous = nullptr;
};

}  // namespace tenon::session

#endif  // TENON_CORE_SESSION_RUN_OPTIONS_H_
