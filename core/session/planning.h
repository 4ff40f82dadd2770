// SPDX-License-Identifier: Apache-2.0
// Planning: the time and memory that the making of a plan may take, on this thread, while the object lives: until the
// caller cancels or its deadline passes, until the session is closed, and within the session's memory limit.
#ifndef TENON_CORE_SESSION_PLANNING_H_
#define TENON_CORE_SESSION_PLANNING_H_

#include "core/base/cancellation.h"
#include "core/session/run_options.h"
#include "core/tensor/allowance.h"

namespace tenon::session {

class Planning {
 public:
  Planning(DeadlineWatcher* watcher, Cancellation* closed, BufferPool* pool, const RunOptions& options);
  ~Planning();
  Planning(const Planning&) = delete;
  Planning& operator=(const Planning&) = delete;

 private:
  DeadlineWatcher* const watcher_;
  Cancellation ends_;
  uint64_t deadline_ = 0;
  Subscription closed_, cancelled_;
  const Allowance allowance_;
};

}  // namespace tenon::session

#endif  // TENON_CORE_SESSION_PLANNING_H_
