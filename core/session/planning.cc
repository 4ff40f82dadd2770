// SPDX-License-Identifier: Apache-2.0
#include "core/session/planning.h"

#include "core/base/clock.h"

namespace tenon::session {

Planning::Planning(DeadlineWatcher* watcher, Cancellation* closed, BufferPool* pool, const RunOptions& options)
    : watcher_(watcher), allowance_(&ends_, pool) {
  const auto end = [this](const Status& reason) { ends_.Cancel(reason); };
  if (options.timeout_ns != 0) {
    auto watched = watcher->Watch(&ends_, NowNs() + options.timeout_ns, options.timeout_ns);
    if (watched.ok()) deadline_ = *watched;
    else ends_.Cancel(watched.status());
  }
  closed_.Begin(closed, end);
  if (options.cancellation != nullptr) cancelled_.Begin(options.cancellation, end);
}

Planning::~Planning() {
  if (deadline_ != 0) watcher_->Forget(deadline_);
}

}  // namespace tenon::session
