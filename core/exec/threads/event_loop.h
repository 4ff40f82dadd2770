// SPDX-License-Identifier: Apache-2.0
// EventLoop: one thread that calls back at a moment, or when a descriptor is ready.
//
// What it calls must be quick: it hands the work to other threads. The thread is made when something is first waited
// for. Times are of the monotonic clock (core/base/clock.h).
#ifndef TENON_CORE_EXEC_THREADS_EVENT_LOOP_H_
#define TENON_CORE_EXEC_THREADS_EVENT_LOOP_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/status.h"

namespace tenon::exec {

// Any thread.
class EventLoop {
 public:
  // `timed_out` where the time is over and the descriptor is not ready.
  using Callback = std::function<void(bool timed_out)>;
  static constexpr uint64_t kNever = UINT64_MAX;

  EventLoop() = default;
  // What has not been called is not called any more.
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // RESOURCE_EXHAUSTED: the system gives no thread. The number is not 0. timed_out is false.
  Result<uint64_t> At(uint64_t when_ns, Callback callback) { return Add({-1, 0, when_ns, std::move(callback)}); }
  // events: POLLIN, POLLOUT or both. INVALID_ARGUMENT: it is no open descriptor.
  Result<uint64_t> WhenReady(int descriptor, short events, uint64_t until_ns, Callback callback);
  // Whether it was not called, and will not be.
  bool Forget(uint64_t number);

 private:
  struct Entry {
    int descriptor;  // -1: time alone
    short events;
    uint64_t until_ns;
    Callback callback;
  };
  Result<uint64_t> Add(Entry entry);
  Status Start();
  void Wake() const;
  void Loop();
  struct Due {
    Callback callback;
    bool timed_out;
  };
  void Await(std::unique_lock<std::mutex>* lock);
  void TakeDue(std::vector<Due>* out);
  void Take(uint64_t number, bool timed_out, std::vector<Due>* out);

  std::mutex mutex_;
  std::map<uint64_t, Entry> entries_;  // by number
  std::set<std::pair<uint64_t, uint64_t>> times_;  // with their numbers, of those that have one
  std::vector<uint64_t> ready_;  // what the last poll found; the loop's own
  uint64_t next_ = 1;
  int wake_[2] = {-1, -1};  // a pipe
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_THREADS_EVENT_LOOP_H_
