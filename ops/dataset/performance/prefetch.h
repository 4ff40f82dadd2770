// SPDX-License-Identifier: Apache-2.0
// What datasets do on other threads of the host's: tasks that end with their iterator, and a prefetcher.
#ifndef TENON_OPS_DATASET_PERFORMANCE_PREFETCH_H_
#define TENON_OPS_DATASET_PERFORMANCE_PREFETCH_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

#include "base/dataset.h"

namespace tenon::ops {

// The processors of this process, at most 64: how many calls go on at once where a dataset leaves it to us.
int64_t DefaultParallelism();

// Tasks of one iterator, which share its mutex; joined by Join(). What they wait for they wait for here, and wake when
// the pass is cancelled.
class Tasks {
 public:
  explicit Tasks(const Pass& pass) : pass_(pass) {}
  ~Tasks() { Join(); }
  Tasks(const Tasks&) = delete;
  Tasks& operator=(const Tasks&) = delete;

  std::mutex& mutex() { return mutex_; }
  // Under the mutex. Runs task() on a thread that may wait; it must not throw. False: the host takes no more, and
  // nothing was started.
  bool Start(std::function<void()> task);
  int64_t running() const { return running_; }
  // Under the mutex. Whether tasks should end.
  bool stopped() const { return stopped_ || pass_.cancelled(); }
  void Changed() { changed_.notify_all(); }
  // Waits until ready(), under the mutex. CANCELLED, thrown, when the pass was cancelled.
  template <class Ready>
  void WaitUntil(std::unique_lock<std::mutex>& lock, const Ready& ready) {
    while (!ready()) {
      if (pass_.cancelled()) {
        lock.unlock();
        pass_.CheckCancelled();
      }
      changed_.wait_for(lock, kBetweenLooks);
    }
  }
  // In a task, which has nothing to do until ready(), under the mutex: waits a little for that, and says whether it
  // came. Who waits so needs not be started again.
  template <class Ready>
  bool Linger(std::unique_lock<std::mutex>& lock, const Ready& ready) {
    return changed_.wait_for(lock, kBetweenLooks, [&] { return stopped() || ready(); }) && !stopped();
  }
  // Under the mutex, which is given up while it waits: until idle(), and then state() while no task goes on. What tasks
  // may begin they ask paused() before, under the mutex.
  template <class Idle, class State>
  void Paused(std::unique_lock<std::mutex>& lock, const Idle& idle, const State& state) {
    const Pause pause(*this, lock);
    WaitUntil(lock, idle);
    state();
  }
  bool paused() const { return paused_; }
  // No task begins any more, and all have ended.
  void Join();

 private:
  struct Pause {
    Pause(Tasks& of, std::unique_lock<std::mutex>& under) : tasks(of), lock(under) { tasks.paused_ = true; }
    ~Pause() {
      if (!lock.owns_lock()) lock.lock();
      tasks.paused_ = false;
      tasks.Changed();
    }
    Tasks& tasks;
    std::unique_lock<std::mutex>& lock;
  };
  static constexpr std::chrono::milliseconds kBetweenLooks{20};  // at whether the pass was cancelled

  const Pass& pass_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t running_ = 0;
  bool stopped_ = false, paused_ = false;
};

// Keeps up to `size` elements of a pass over `input`, which outlives it, ready (kAutotune: as many as the consumer
// turns out to need), beginning now.
IteratorPtr NewPrefetcher(const Pass& pass, const Dataset& input, int64_t size);

}  // namespace tenon::ops

#endif  // TENON_OPS_DATASET_PERFORMANCE_PREFETCH_H_
