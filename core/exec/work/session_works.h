// SPDX-License-Identifier: Apache-2.0
// SessionWorks: what all works of a session share: threads, memory, how much may be under way, and their end.
//
// A work may outlive its session (a resource that many sessions share holds it). Whoever touches what is the session's
// enters first; the session closes, and goes when nobody is inside and nothing is to come back any more.
#ifndef TENON_CORE_EXEC_WORK_SESSION_WORKS_H_
#define TENON_CORE_EXEC_WORK_SESSION_WORKS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "tenon/kernel.h"

namespace tenon {
class BufferPool;
}

namespace tenon::exec {

class EventLoop;
class HostThreads;

// Any thread.
class SessionWorks {
 public:
  // Of one session: things that are to come back, and of those the ones that may wait, each of which has a thread.
  static constexpr int64_t kMostPending = 65536, kMostWaiting = 256;

  SessionWorks(EventLoop* loop, HostThreads* threads, BufferPool* pool) : loop_(loop), threads_(threads), pool_(pool) {}

  // Whether the session is there until the object goes.
  class Entered {
   public:
    explicit Entered(SessionWorks* works) : works_(works) { works_->inside_.fetch_add(1); }
    ~Entered() { works_->inside_.fetch_sub(1); }
    Entered(const Entered&) = delete;
    Entered& operator=(const Entered&) = delete;
    explicit operator bool() const { return !works_->closed_.load(); }
    // Why it is not.
    Status why() const { return works_->reason(); }

   private:
    SessionWorks* const works_;
  };

  // One more thing is to come back. RESOURCE_EXHAUSTED names the bound.
  Status Begin(bool may_wait);
  void End(bool may_wait) {
    if (may_wait) waiting_.fetch_sub(1);
    pending_.fetch_sub(1);
  }

  // Inside, or while something is to come back.
  EventLoop* loop() const { return loop_; }
  HostThreads* threads() const { return threads_; }
  BufferPool* pool() const { return pool_; }

  // Works in the background end with the session.
  void Add(const std::shared_ptr<tenon_work>& work);
  // Nothing more is taken; what is to come back comes with the reason, the first one where there are several.
  void Close(const Status& reason) noexcept;
  bool idle() const { return pending_.load() == 0 && inside_.load() == 0; }
  int64_t pending() const { return pending_.load(); }

 private:
  Status reason();

  EventLoop* const loop_;
  HostThreads* const threads_;
  BufferPool* const pool_;
  std::atomic<bool> closed_{false};
  std::atomic<int64_t> inside_{0}, pending_{0}, waiting_{0};
  std::mutex mutex_;
  Status reason_;
  std::vector<std::weak_ptr<tenon_work>> background_;
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_WORK_SESSION_WORKS_H_
