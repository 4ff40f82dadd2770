// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/session_table.h"

#include <algorithm>
#include <chrono>

#include "net/cluster/planted.h"
#include "net/cluster/secret.h"

namespace tenon::cluster {
namespace {

// For an owner's earlier sessions to end.
constexpr auto kOwnerPatience = std::chrono::seconds(5);

bool IsOwn(const WorkerSession& session, const std::string& owner, const std::string& secret) {
  return session.owner == owner && SameSecret(session.owner_secret, secret);
}

}  // namespace

Result<SessionTable::Session> SessionTable::Find(uint64_t id) const {
  const std::lock_guard lock(mutex_);
  if (const auto at = sessions_.find(id); at != sessions_.end()) return at->second;
  if (refuses_) return Stopping();
  return Status(Code::kAborted, StrCat("task ", task_, " has no session ", id,
                                       "; it was closed, or the task has been started again"));
}

Status SessionTable::Admit(const Session& session) {
  const std::lock_guard lock(mutex_);
  if (refuses_) return Stopping();
  if (sessions_.size() >= most_)
    return ResourceExhausted(StrCat("task ", task_, " has ", sessions_.size(),
                                    " sessions, as many as it may; close one, or raise --max-sessions"));
  if (!sessions_.emplace(session->session->id, session).second)
    return AlreadyExists(StrCat("session ", session->session->id, " is open at task ", task_));
  return Status::Ok();
}

void SessionTable::Refuse() {
  const std::lock_guard lock(mutex_);
  refuses_ = true;
}

bool SessionTable::BeginEnd(const Session& session) {
  const std::lock_guard lock(mutex_);
  const auto at = sessions_.find(session->session->id);
  if (at == sessions_.end() || at->second != session) return false;
  sessions_.erase(at);
  ending_.insert(session);
  return true;
}

void SessionTable::Ended(const Session& session) {
  const std::lock_guard lock(mutex_);
  ending_.erase(session);
  ended_.notify_all();
}

// ---- Some of them ----

template <class Has>
SessionTable::Sessions SessionTable::Where(const Has& has) const {
  Sessions found;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, session] : sessions_)
    if (has(*session->session)) found.push_back(session);
  return found;
}

SessionTable::Sessions SessionTable::All() const {
  return Where([](const WorkerSession&) { return true; });
}

SessionTable::Sessions SessionTable::OfMaster(tenon_peer* master) const {
  return Where([master](const WorkerSession& session) { return session.master == master; });
}

SessionTable::Sessions SessionTable::Late(uint64_t now_ns) const {
  if (Planted(Bug::kLeaseIgnored)) return {};
  return Where([now_ns](const WorkerSession& session) {
    return session.lease_ns != 0 && now_ns > session.heard_ns + session.lease_ns;
  });
}

SessionTable::Sessions SessionTable::OwnedBy(const std::string& owner, const std::string& secret) const {
  return Where([&](const WorkerSession& session) { return IsOwn(session, owner, secret); });
}

Status SessionTable::AwaitNoneOf(const std::string& owner, const std::string& secret) {
  std::unique_lock lock(mutex_);
  // One whose process has died ends as soon as its connection is seen to be gone.
  const auto none = [&] {
    const auto of_it = [&](const Session& each) { return each->session->owner == owner; };
    return std::none_of(sessions_.begin(), sessions_.end(), [&](const auto& each) { return of_it(each.second); }) &&
           std::none_of(ending_.begin(), ending_.end(), of_it);
  };
  if (ended_.wait_for(lock, kOwnerPatience, none)) return Status::Ok();
  const bool stranger = std::any_of(sessions_.begin(), sessions_.end(), [&](const auto& each) {
    const WorkerSession& session = *each.second->session;
    return session.owner == owner && !IsOwn(session, owner, secret);
  });
  if (stranger)
    return Status(Code::kAborted, StrCat("task ", task_, " has a session of '", owner,
                                         "' that was opened with another secret than this one gives; it ends when its ",
                                         "master closes it, is gone, or is silent for its lease"));
  return Status(Code::kDeadlineExceeded, StrCat("the steps of an earlier session of '", owner, "' at task ", task_,
                                                " have not ended: ", BusyLocked()));
}

// ---- For people ----

size_t SessionTable::size() const {
  const std::lock_guard lock(mutex_);
  return sessions_.size();
}

std::string SessionTable::Busy() const {
  const std::lock_guard lock(mutex_);
  return BusyLocked();
}

std::string SessionTable::BusyLocked() const {
  std::string text = running_->Say();
  for (const auto& [session, part] : planning_)
    text += StrCat(text.empty() ? "" : ", ", "the planning of part ", part, " of session ", session);
  if (text.empty() && !ending_.empty()) text = StrCat("session ", (*ending_.begin())->session->id);
  return text.empty() ? "work in the background" : text;
}

Status SessionTable::Stopping() const { return Status(Code::kUnavailable, StrCat("task ", task_, " is stopping")); }

}  // namespace tenon::cluster
