// SPDX-License-Identifier: Apache-2.0
// Host threads: the caller's thread runs the step; helpers share the work of one big kernel.
//
// One parallel_for runs at a time; a second one (another step) runs on its own thread alone, which is right when steps
// outnumber cores. Helpers spin for a short while after work, then sleep; while other programs take their cores, they are
// left alone. Invariant: when Run returns no helper touches its function any more.
#ifndef TENON_CORE_EXEC_HOST_THREADS_H_
#define TENON_CORE_EXEC_HOST_THREADS_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tenon::exec {

using RangeFunction = void (*)(void* argument, int64_t begin, int64_t end);

class HostThreads {
 public:
  // threads: of a step, the caller's included; at least 1.
  explicit HostThreads(uint32_t threads);
  ~HostThreads();
  HostThreads(const HostThreads&) = delete;
  HostThreads& operator=(const HostThreads&) = delete;

  uint32_t threads() const { return threads_; }

  // Calls function over [0, total) in shares. cost: nanoseconds of a unit.
  void Run(int64_t total, double cost, RangeFunction function, void* argument);

  // Runs a task on a background thread (asynchronous steps, expensive nodes); made on first use.
  void Schedule(std::function<void()> task);

 private:
  void Helper();
  void Background();
  void TakeShares();
  void AwaitHelpers(int64_t patience);

  uint32_t threads_;
  std::vector<std::thread> helpers_;
  // The current parallel_for.
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  std::atomic<uint64_t> epoch_{0};
  std::atomic<int64_t> next_{0};
  std::atomic<int32_t> inside_{0};
  int32_t crowded_runs_ = 0;  // to come, that take no helpers
  int64_t total_ = 0;
  int64_t share_ = 0;
  RangeFunction function_ = nullptr;
  void* argument_ = nullptr;
  // Sleep and end.
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<int32_t> sleeping_{0};
  std::atomic<bool> stop_{false};
  // Background tasks.
  std::vector<std::thread> background_;
  std::deque<std::function<void()>> tasks_;
  std::condition_variable task_wake_;
  uint32_t idle_background_ = 0;
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_HOST_THREADS_H_
