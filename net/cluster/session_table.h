// SPDX-License-Identifier: Apache-2.0
// SessionTable: the sessions of masters at a worker: which are open, which end, and what is being registered in them.
#ifndef TENON_NET_CLUSTER_SESSION_TABLE_H_
#define TENON_NET_CLUSTER_SESSION_TABLE_H_

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "net/cluster/running_steps.h"
#include "net/cluster/session_parts.h"

namespace tenon::cluster {

// Any thread. The lock guards all that changes; that of the running steps is taken under it, and no other.
class SessionTable {
 public:
  using Session = std::shared_ptr<SessionParts>;
  using Sessions = std::vector<Session>;
  // Shows that a part is being registered, for as long as it lives.
  class Planning {
   public:
    Planning(SessionTable* table, uint64_t session, uint32_t part) : table_(table) {
      const std::lock_guard lock(table_->mutex_);
      at_ = table_->planning_.emplace(session, part);
    }
    ~Planning() {
      const std::lock_guard lock(table_->mutex_);
      table_->planning_.erase(at_);
    }
    Planning(const Planning&) = delete;
    Planning& operator=(const Planning&) = delete;

   private:
    SessionTable* const table_;
    std::multiset<std::pair<uint64_t, uint32_t>>::iterator at_;
  };

  // task: whose sessions; most: so many may be open at once. The running steps outlive it.
  SessionTable(std::string task, uint64_t most, const RunningSteps* running)
      : task_(std::move(task)), most_(most), running_(running) {}

  Result<Session> Find(uint64_t session) const;
  // It is open from now on; not when the worker stops, or has as many as it may.
  Status Admit(const Session& session);
  // Admits none from now on.
  void Refuse();
  // It is found no more, and ends until Ended(). False: somebody else has ended it.
  bool BeginEnd(const Session& session);
  void Ended(const Session& session);

  Sessions All() const;
  Sessions OfMaster(tenon_peer* master) const;
  // Whose master has not been heard of for their lease.
  Sessions Late(uint64_t now_ns) const;
  // Those that the owner opened with that secret.
  Sessions OwnedBy(const std::string& owner, const std::string& secret) const;
  // Waits until none of the owner is open or ends, for a bounded time. Those that were opened with another secret are
  // not its own: the error says so.
  Status AwaitNoneOf(const std::string& owner, const std::string& secret);

  size_t size() const;
  // What runs still, for people.
  std::string Busy() const;
  // Why nothing is begun any more.
  Status Stopping() const;

 private:
  template <class Has>
  Sessions Where(const Has& has) const;
  std::string BusyLocked() const;

  const std::string task_;
  const uint64_t most_;
  const RunningSteps* const running_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::map<uint64_t, Session> sessions_;
  std::set<Session> ending_;  // those whose steps are awaited
  std::multiset<std::pair<uint64_t, uint32_t>> planning_;  // sessions and parts that are being registered
  bool refuses_ = false;
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_SESSION_TABLE_H_
