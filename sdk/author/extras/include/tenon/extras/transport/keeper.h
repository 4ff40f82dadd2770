// SPDX-License-Identifier: Apache-2.0
// Keeper: the one thread of an endpoint that watches deadlines and does what no callback may do itself.
//
// Idea: a heap of timers, each a field of the record whose deadline it is, so that arming one allocates nothing. The
// thread is woken only for a timer before the time that it sleeps until anyway; calls that end in time cost it nothing.
// Rules: any thread may arm, disarm and post. An owner disarms its timers before it dies; one that fires in that moment
// finds its owner gone. OnTimer gets the timer's id, not the timer: by then it may serve another record.
#ifndef TENON_SDK_TRANSPORT_KEEPER_H_
#define TENON_SDK_TRANSPORT_KEEPER_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace tenon::sdk {

// Nanoseconds of the host's monotonic clock.
inline uint64_t Now() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}
inline constexpr uint64_t kNever = INT64_MAX;
inline std::chrono::steady_clock::time_point TimePoint(uint64_t nanoseconds) {
  const auto count = static_cast<int64_t>(nanoseconds < kNever ? nanoseconds : kNever);
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(count));
}

class TimerOwner : public std::enable_shared_from_this<TimerOwner> {
 public:
  virtual ~TimerOwner() = default;
  virtual void OnTimer(uint32_t kind, uint64_t id) = 0;
};

struct Timer {
  static constexpr size_t kUnarmed = SIZE_MAX;
  TimerOwner* owner = nullptr;
  uint32_t kind = 0;
  uint64_t id = 0;
  uint64_t due = 0;
  size_t position = kUnarmed;  // in the heap; the keeper's
};

class Keeper {
 public:
  Keeper() : thread_([this] { Run(); }) {}
  ~Keeper() { Stop(); }
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  // Sets it anew where it was armed. `kind` is what OnTimer gets.
  void Arm(Timer* timer, uint64_t due, uint32_t kind) {
    std::unique_lock guard(lock_);
    if (timer->position != Timer::kUnarmed) Remove(timer);
    timer->due = due;
    timer->kind = kind;
    heap_.push_back(timer);
    Place(heap_.size() - 1, timer);
    Up(timer->position);
    if (due >= sleeps_until_) return;
    guard.unlock();
    wake_.notify_one();
  }
  void Disarm(Timer* timer) {
    const std::lock_guard guard(lock_);
    if (timer->position != Timer::kUnarmed) Remove(timer);
  }
  // Runs it soon on the keeper's thread; jobs run in order. After Stop() it is dropped.
  void Post(std::function<void()> job) {
    {
      const std::lock_guard guard(lock_);
      jobs_.push_back(std::move(job));
    }
    wake_.notify_one();
  }
  // Jobs that were posted before still run. Not from the keeper's own thread.
  void Stop() {
    {
      const std::lock_guard guard(lock_);
      stop_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

 private:
  void Run() {
    std::unique_lock guard(lock_);
    for (;;) {
      sleeps_until_ = 0;
      if (!jobs_.empty()) {
        std::vector<std::function<void()>> jobs = std::exchange(jobs_, {});
        guard.unlock();
        for (const auto& job : jobs) job();
        jobs.clear();  // before the lock: what they hold may end here
        guard.lock();
      } else if (stop_) {
        return;
      } else if (!heap_.empty() && heap_[0]->due <= Now()) {
        Fire(&guard);
      } else {
        sleeps_until_ = heap_.empty() ? kNever : heap_[0]->due;
        if (heap_.empty()) {
          wake_.wait(guard);
        } else {
          wake_.wait_until(guard, TimePoint(sleeps_until_));
        }
      }
    }
  }
  void Fire(std::unique_lock<std::mutex>* guard) {
    Timer* timer = heap_[0];
    Remove(timer);
    std::shared_ptr<TimerOwner> owner = timer->owner->weak_from_this().lock();
    const uint32_t kind = timer->kind;
    const uint64_t id = timer->id;
    guard->unlock();
    if (owner != nullptr) owner->OnTimer(kind, id);
    owner.reset();  // before the lock: its end disarms timers
    guard->lock();
  }

  // ---- The heap: the earliest is first ----
  void Place(size_t at, Timer* timer) {
    heap_[at] = timer;
    timer->position = at;
  }
  void Up(size_t at) {
    Timer* timer = heap_[at];
    for (; at != 0 && heap_[(at - 1) / 2]->due > timer->due; at = (at - 1) / 2) Place(at, heap_[(at - 1) / 2]);
    Place(at, timer);
  }
  void Down(size_t at) {
    Timer* timer = heap_[at];
    for (size_t child = 2 * at + 1; child < heap_.size(); child = 2 * at + 1) {
      if (child + 1 < heap_.size() && heap_[child + 1]->due < heap_[child]->due) ++child;
      if (heap_[child]->due >= timer->due) break;
      Place(at, heap_[child]);
      at = child;
    }
    Place(at, timer);
  }
  void Remove(Timer* timer) {
    const size_t at = std::exchange(timer->position, Timer::kUnarmed);
    Timer* last = heap_.back();
    heap_.pop_back();
    if (last == timer) return;
    Place(at, last);
    Up(at);
    Down(last->position);
  }

  std::mutex lock_;
  std::condition_variable wake_;
  std::vector<Timer*> heap_;
  std::vector<std::function<void()>> jobs_;
  uint64_t sleeps_until_ = 0;  // 0: awake
  bool stop_ = false;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace tenon::sdk

#endif  // TENON_SDK_TRANSPORT_KEEPER_H_
