// SPDX-License-Identifier: Apache-2.0
// Cancellation: a flag with a reason and callbacks, and deadlines that set it.
#ifndef TENON_CORE_BASE_CANCELLATION_H_
#define TENON_CORE_BASE_CANCELLATION_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "core/base/plugin_call.h"

namespace tenon {

class Cancellation {
 public:
  bool cancelled() const { return flag_.load(std::memory_order_relaxed); }
  // The first reason wins. Callbacks run on this thread.
  void Cancel(Status reason);
  // Why it was cancelled.
  Status reason() const;
  // 0: already cancelled, and the callback was not taken.
  uint64_t Subscribe(std::function<void(const Status&)> callback);
  // Whether the callback will not run any more. Waits for one that runs now, except on its own thread.
  bool Unsubscribe(uint64_t token);

 private:
  std::atomic<bool> flag_{false};
  mutable std::mutex mutex_;
  std::condition_variable ran_;
  Status reason_;
  std::map<uint64_t, std::function<void(const Status&)>> callbacks_;
  uint64_t next_token_ = 1;
  uint64_t running_ = 0;
  std::thread::id runner_;
};

// One thread that cancels when deadlines pass. Made when the first deadline is watched.
class DeadlineWatcher {
 public:
  ~DeadlineWatcher();
  // Cancels with DEADLINE_EXCEEDED at the monotonic time. Returns a token for Forget, which is not 0. RESOURCE_EXHAUSTED: there is no
  // thread to watch. trail: of the thread that does the work (nullptr: nobody asks); when it has not ended a while later, a line of the
  // log says in which plugin it is, once.
  Result<uint64_t> Watch(Cancellation* cancellation, uint64_t deadline_ns, uint64_t timeout_ns, const PluginTrail* trail = nullptr);
  // After this neither the cancellation nor what the trail leads to is touched any more.
  void Forget(uint64_t token);

 private:
  void Loop();
  struct Entry {
    Cancellation* cancellation;
    uint64_t token;
    uint64_t timeout_ns;
    const PluginTrail* trail;
    bool cancelled;
  };
  static void NameWhoRuns(const Entry& entry);
  std::mutex mutex_;
  std::condition_variable wake_;
  std::multimap<uint64_t, Entry> entries_;
  uint64_t next_token_ = 1;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tenon

#endif  // TENON_CORE_BASE_CANCELLATION_H_
