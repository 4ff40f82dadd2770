// SPDX-License-Identifier: Apache-2.0
// Coordinator: threads that work beside the steps of training, stop together, and report the first failure of any of
// them.
//
//   Coordinator coordinator;
//   coordinator.Start([&] { while (!coordinator.should_stop()) { ... } return Status(); });
//   ... steps ...
//   coordinator.RequestStop();
//   Status status = coordinator.Join();
//
// A thread that fails asks all to stop. A thread is asked, never ended: it looks at should_stop(), or is woken by what
// OnStop() registered. Any thread may call anything but Join(), which the owner calls once, and the destructor, which
// asks and joins.
#ifndef TENON_TRAIN_COORDINATOR_H_
#define TENON_TRAIN_COORDINATOR_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "tenon/train/base.h"

namespace tenon::train {

class Coordinator {
 public:
  Coordinator() = default;
  ~Coordinator() { (void)Stop(); }
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // Runs body() on a thread of its own. What it returns, where it failed, is a reason to stop.
  void Start(std::function<Status()> body);
  // why: the reason, where it is a failure; the first one is kept.
  void RequestStop(Status why = Status());
  bool should_stop() const;
  // Waits so long at most; whether threads should stop.
  bool WaitForStop(std::chrono::nanoseconds timeout) const;
  // Called once, on the thread that asks all to stop first, or now if that was done.
  void OnStop(std::function<void()> wake);
  // Waits until all threads have ended. The first failure, or ok.
  Status Join();
  Status Stop() {
    RequestStop();
    return Join();
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable stopping_;
  bool stop_ = false;
  Status why_;
  std::vector<std::function<void()>> wakes_;
  std::vector<std::thread> threads_;
};

}  // namespace tenon::train

#endif  // TENON_TRAIN_COORDINATOR_H_
