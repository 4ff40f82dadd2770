// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/coordinator.h"

#include <exception>
#include <utility>

namespace tenon::train {

void Coordinator::Start(std::function<Status()> body) {
  std::thread thread([this, body = std::move(body)] {
    Status status;
    try {
      status = body();
    } catch (const std::exception& error) {
      status = Status(Code::kInternal, std::string("a thread of a coordinator threw an exception: ") + error.what());
    }
    if (!status.ok()) RequestStop(std::move(status));
  });
  const std::lock_guard lock(mutex_);
  threads_.push_back(std::move(thread));
}

void Coordinator::RequestStop(Status why) {
  std::vector<std::function<void()>> wakes;
  {
    const std::lock_guard lock(mutex_);
    if (why_.ok() && !why.ok()) why_ = std::move(why);
    if (stop_) return;
    stop_ = true;
    wakes.swap(wakes_);
    stopping_.notify_all();
  }
  for (const auto& wake : wakes) wake();
}

bool Coordinator::should_stop() const {
  const std::lock_guard lock(mutex_);
  return stop_;
}

bool Coordinator::WaitForStop(std::chrono::nanoseconds timeout) const {
  std::unique_lock lock(mutex_);
  return stopping_.wait_for(lock, timeout, [this] { return stop_; });
}

void Coordinator::OnStop(std::function<void()> wake) {
  {
    const std::lock_guard lock(mutex_);
    if (!stop_) {
      wakes_.push_back(std::move(wake));
      return;
    }
  }
  wake();
}

Status Coordinator::Join() {
  // Threads may start others, until the last has ended.
  for (;;) {
    std::vector<std::thread> threads;
    {
      const std::lock_guard lock(mutex_);
      threads.swap(threads_);
    }
    if (threads.empty()) break;
    for (std::thread& thread : threads) thread.join();
  }
  const std::lock_guard lock(mutex_);
  return why_;
}

}  // namespace tenon::train
