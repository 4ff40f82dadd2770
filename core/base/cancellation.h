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

class Cancellation;

// A callback of a cancellation, for as long as this lives. It takes no memory, so that who must hear of a cancellation
// will.
class Subscription {
 public:
  Subscription() = default;
  // What was cancelled already is heard at once, on this thread. The cancellation outlives this.
  Subscription(Cancellation* to, std::function<void(const Status&)> callback) { Begin(to, std::move(callback)); }
  ~Subscription() { End(); }
  Subscription(const Subscription&) = delete;
  Subscription& operator=(const Subscription&) = delete;

  // As the constructor; what it listened to before has ended. false: it was cancelled already, and the callback has
  // run.
  bool Begin(Cancellation* to, std::function<void(const Status&)> callback);
  // Whether the callback has not run, and will not any more. Waits for one that runs now, except on its own thread.
  bool End();

 private:
  friend class Cancellation;
  Cancellation* to_ = nullptr;
  Subscription *before_ = nullptr, *after_ = nullptr;  // of those that wait
  bool waits_ = false;
  std::function<void(const Status&)> callback_;
};

class Cancellation {
 public:
  bool cancelled() const { return flag_.load(std::memory_order_relaxed); }
  // The first reason wins. Callbacks run on this thread, in the order in which they came; what one throws is logged.
  void Cancel(Status reason) noexcept;
  // Why it was cancelled.
  Status reason() const;
  // For who keeps numbers. 0: already cancelled, and the callback was not taken.
  uint64_t Subscribe(std::function<void(const Status&)> callback);
  // As Subscription::End.
  bool Unsubscribe(uint64_t token);

 private:
  friend class Subscription;
  bool Append(Subscription* subscription);
  void Remove(Subscription* subscription);

  std::atomic<bool> flag_{false};
  mutable std::mutex mutex_;
  std::condition_variable ran_;
  Status reason_;
  Subscription *first_ = nullptr, *last_ = nullptr;
  const Subscription* running_ = nullptr;
  std::thread::id runner_;
  std::mutex numbered_mutex_;
  uint64_t next_token_ = 1;
  std::map<uint64_t, Subscription> numbered_;
};

// One thread that cancels when deadlines pass. Made when the first deadline is watched.
class DeadlineWatcher {
 public:
  ~DeadlineWatcher();
  // Cancels with DEADLINE_EXCEEDED at the monotonic time. Returns a token for Forget, which is not 0.
  // RESOURCE_EXHAUSTED: there is no thread to watch. trail: of the thread that does the work (nullptr: nobody asks);
  // when it has not ended a while later, a line of the log says in which plugin it is, once.
  Result<uint64_t> Watch(Cancellation* cancellation, uint64_t deadline_ns, uint64_t timeout_ns,
                         const PluginTrail* trail = nullptr);
  // Another thread does the work now; nullptr: none.
  void Follow(uint64_t token, const PluginTrail* trail);
  // After this neither the cancellation nor what the trail leads to is touched any more. A deadline that has passed has
  // cancelled.
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
  static void CancelLate(const Entry& entry);
  std::multimap<uint64_t, Entry>::iterator Find(uint64_t token);
  std::mutex mutex_;
  std::condition_variable wake_;
  std::multimap<uint64_t, Entry> entries_;
  uint64_t next_token_ = 1;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tenon

#endif  // TENON_CORE_BASE_CANCELLATION_H_
