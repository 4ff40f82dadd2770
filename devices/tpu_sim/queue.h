// SPDX-License-Identifier: Apache-2.0
// Queue: pieces of work in order, and the device's thread that does them.
//
// A piece of work waits for its points, runs, and moves its timeline on. How it can end:
//   - a point that it waits for has failed, it fails, or fails late: its timeline fails with that status, from where it
//   is.
//   - its timeline has failed before it began: it is not run. The queue goes on with the work of other timelines.
//   - the device is lost: UNAVAILABLE, and so for everything after.
//   - the queue or the device is closed: work that has not begun is CANCELLED.
// Work without a timeline tells its failure to nobody (the log of the host excepted); host calls tell their own
// argument.
//
// Submitting takes one lock, which the thread holds for moments, and allocates nothing in the long run: work items are
// used again with what their members hold. The thread takes all that is there at once, and is woken only when it
// sleeps. Simulated time: what was done is noted with the clock (clock.h), which finds out when it was.
#ifndef TENON_DEVICES_TPU_SIM_QUEUE_H_
#define TENON_DEVICES_TPU_SIM_QUEUE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "clock.h"
#include "model/cycle_model.h"
#include "outcome.h"
#include "task.h"
#include "timeline.h"

namespace tenon::tpu_sim {

class Device;

// What a submission says beside its closure.
struct Order {
  const char* what = "";  // an op, "copy", ...; static
  const char* kind = "";  // for the profile: "kernel", "copy", ...; static
  Unit unit = Unit::kNone;
  Cycles cost = {};
  tenon_span label = {};
  Timeline* timeline = nullptr;
  uint64_t signal = 0;
  const tenon_timeline_point* waits = nullptr;
  uint64_t wait_count = 0;
};

class Queue : public sdk::Handled<Queue, tenon_queue> {
 public:
  Queue(std::shared_ptr<Device> device, int64_t number);
  ~Queue();
  void Start();
  // Appends. UNAVAILABLE when the device is lost, FAILED_PRECONDITION when the queue is closed; then nothing of the
  // work is called and its timeline is untouched. run: a closure for the queue's thread (task.h); one that is called in
  // any case is taken from a lost device too, so that the host learns when the thread has done with what was submitted
  // before.
  template <class Function>
  Outcome Submit(const Order& order, Function&& run) {
    std::unique_lock lock(submit_mutex_);
    constexpr bool kAlways = std::is_invocable_v<std::decay_t<Function>&, const Outcome&>;
    if (gone_.load(std::memory_order_relaxed) && (!kAlways || closing_)) [[unlikely]] return WhyGone(lock);
    TakeItem(order).run.Set(std::forward<Function>(run));
    Append();
    return {};
  }
  // Ends the thread; what has not begun is cancelled. Idempotent; from the queue's own thread it does not wait.
  void Close();
  // The device is lost. Needs System::mutex.
  void Lose();

  // Gives memory back when the work so far is done; a request of this queue that finds none may have it before.
  void FreeLater(uint32_t kind, void* data, uint64_t bytes);
  void* TakeFreed(uint64_t bytes, uint64_t alignment);

  Device& device() const { return *device_; }
  const std::string& name() const { return name_; }

 private:
  struct Work {
    Work* next = nullptr;
    const char* what = "";
    const char* kind = "";
    Unit unit = Unit::kNone;
    Cycles cost;
    std::string label;
    Timeline* timeline = nullptr;
    uint64_t signal = 0;
    uint64_t submitted = 0;  // by the host's clock
    std::vector<Point> waits;
    Task run;
  };
  struct Freed {
    uint64_t number;
    void* data;
    uint64_t bytes;
  };
  using Lock = std::unique_lock<std::mutex>;

  // ---- Submitting: need submit_mutex_ ----
  Work& TakeItem(const Order& order);
  void Append();
  Outcome WhyGone(Lock& lock) const;

  // ---- The thread ----
  void Serve();
  Work* TakeAll(Work* done);
  void Do(Work& work);
  Outcome Obstacle(const Work& work) const;
  Outcome Await(Lock& lock, const Work& work);
  Outcome Execute(Lock& lock, Work& work, Span* span);
  MomentPointer Note(const Work& work, const Span& span, bool logged, bool took_unit);
  Outcome Call(Work& work, const Outcome& before) const;
  void Settle(const Work& work, const Outcome& outcome, MomentPointer moment);
  void Pace(Lock& lock, const Work& work, double late, std::chrono::steady_clock::time_point begin);
  void SleepUntil(Lock& lock, std::chrono::steady_clock::time_point until);
  std::string Describe(const Work& work) const;

  const std::shared_ptr<Device> device_;
  const int64_t number_;
  const std::string name_;
  std::thread thread_;
  std::atomic<bool> gone_{false};     // nothing is taken any more
  std::atomic<bool> closing_{false};

  std::mutex submit_mutex_;
  std::condition_variable submitted_;
  // Guarded by submit_mutex_.
  std::vector<std::unique_ptr<Work[]>> items_;
  Work* spare_ = nullptr;
  Work* fresh_ = nullptr;  // taken from spare_, being filled
  Work* first_ = nullptr;
  Work* last_ = nullptr;
  bool sleeping_ = false;
  std::vector<Freed> freed_;
  uint64_t frees_ = 0;

  // The thread's own, and Close()'s, with System::mutex where they meet.
  std::condition_variable reached_;  // a timeline has moved, the device is lost, or the queue is closing
  Notices notices_;
  const std::shared_ptr<QueueTime> time_;
  std::vector<MomentPointer> waited_;  // for the work at hand
  uint64_t random_;                    // of delays
};

}  // namespace tenon::tpu_sim

#endif  // TENON_DEVICES_TPU_SIM_QUEUE_H_
