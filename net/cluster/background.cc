// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/background.h"

#include <memory>

#include "core/base/log.h"
#include "core/exec/threads/host_threads.h"

namespace tenon::cluster {

void Background::Later(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    ++count_;
  }
  std::shared_ptr<std::function<void()>> shared;
  // Steps wait for one another, and for a queue's elements; what lets them go on may be a later one.
  const Status scheduled = Guarded([&] {
    shared = std::make_shared<std::function<void()>>(std::move(work));
    return runtime_->threads().ScheduleWaiting([this, shared] { Perform(shared.get()); });
  });
  if (scheduled.ok()) return;
  // Then it is done here, while whoever called waits.
  Say(TENON_LOG_WARNING, scheduled.message());
  Perform(shared == nullptr ? &work : shared.get());
}

void Background::Perform(std::function<void()>* work) {
  const Status thrown = Guarded(*work);
  if (!thrown.ok()) Say(TENON_LOG_ERROR, thrown.message());
  *work = nullptr;  // what it holds (sessions, steps) goes before the count
  const std::lock_guard lock(mutex_);
  --count_;
  done_.notify_all();
}

void Background::Say(uint32_t level, std::string_view text) const {
  const LogScope scope({task_, 0});
  Log(level, text);
}

void Background::Await() {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return count_ == 0; });
}

}  // namespace tenon::cluster
