// SPDX-License-Identifier: Apache-2.0
// Host threads: the caller's thread runs the step; helpers share the work of one big kernel.
//
// One parallel_for runs at a time; a second one (another step) runs on its own thread alone, which is right when steps
// outnumber cores. There are no more helpers than cores that this process may use. Who waits spins for a short while,
// then sleeps: helpers for work, the caller for shares, so that a helper whose core other programs took gets the
// caller's. Beside other programs a helper offers its core between shares, rather than lose it in the middle of one,
// and leaves the caller's. Invariant: when Run returns no helper touches its function any more. Tasks that may wait
// take no helpers while more of them run than a step has threads: then they share the cores among themselves.
//
// Tasks in the background are of two kinds. What computes shares a bounded number of threads. What may wait for others
// (steps of a cluster, blocking kernels) has a thread at once, however many wait: what they wait for may come behind
// them.
#ifndef TENON_CORE_EXEC_THREADS_HOST_THREADS_H_
#define TENON_CORE_EXEC_THREADS_HOST_THREADS_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/status.h"

namespace tenon::exec {

using RangeFunction = void (*)(void* argument, int64_t begin, int64_t end);

class HostThreads {
 public:
  // threads: of a step, the caller's included; at least 1. Fewer where the system gives no more, which is logged.
  explicit HostThreads(uint32_t threads);
  ~HostThreads();
  HostThreads(const HostThreads&) = delete;
  HostThreads& operator=(const HostThreads&) = delete;

  uint32_t threads() const { return threads_; }
  // Of these, how many a Run may use: no more than there are cores.
  uint32_t at_once() const { return static_cast<uint32_t>(helpers_.size()) + 1; }

  // Calls function over [0, total) in shares. cost: nanoseconds of a unit. out_waits_ns: when this thread began to wait
  // for helpers' shares, by the monotonic clock, if it had to; may be nullptr.
  void Run(int64_t total, double cost, RangeFunction function, void* argument, uint64_t* out_waits_ns = nullptr);
  // How many calls of Run this thread has shared with helpers, or would have, if another had not had them: whoever
  // times a kernel sees whether it uses threads by itself.
  static uint64_t SharedRuns();

  // Runs a task that computes (expensive nodes) on a background thread; made on first use. RESOURCE_EXHAUSTED: the
  // system gives none, and the task was not taken.
  Status Schedule(const std::function<void()>& task) { return Schedule(&computing_, task); }
  // Runs a task that may wait for other tasks.
  Status ScheduleWaiting(const std::function<void()>& task) { return Schedule(&waiting_, task); }

 private:
  // Threads for one kind of task; guarded by the mutex.
  struct Background {
    size_t limit;  // of threads
    std::list<std::thread> threads = {};
    std::deque<std::function<void()>> tasks = {};
    std::condition_variable wake = {};
    size_t idle = 0;
  };
  void Helper();
  Status AddThread(Background* background);
  Status Schedule(Background* background, const std::function<void()>& task);
  void Serve(Background* background, std::list<std::thread>::iterator self);
  // Whether none is left; false where the time is over first.
  bool TakeShares(uint64_t until_ns);
  void AwaitHelpers();

  uint32_t threads_;
  std::vector<std::thread> helpers_;
  // The current parallel_for.
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  std::atomic<uint64_t> epoch_{0};
  std::atomic<int64_t> next_{0};
  std::atomic<int32_t> inside_{0};
  std::atomic<bool> caller_sleeps_{false};
  std::atomic<int> caller_core_{-1};
  int64_t total_ = 0;
  int64_t share_ = 0;
  RangeFunction function_ = nullptr;
  void* argument_ = nullptr;
  // Sleep and end.
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<int32_t> sleeping_{0};
  std::atomic<bool> stop_{false};
  Background computing_, waiting_;
  std::atomic<uint32_t> waiting_running_{0};  // tasks that may wait, and run now
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_THREADS_HOST_THREADS_H_
