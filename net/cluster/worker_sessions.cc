// SPDX-License-Identifier: Apache-2.0
// Sessions of masters: how they begin, what they register, and how they end.
#include "net/cluster/worker.h"

#include <algorithm>
#include <chrono>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "net/cluster/planted.h"
#include "net/cluster/protocol.h"
#include "net/cluster/secret.h"

namespace tenon::cluster {
namespace {

// For an owner's earlier sessions to end.
constexpr auto kOwnerPatience = std::chrono::seconds(5);

// ", with compile = 0": the options that are not what they are by default.
std::string Say(const session::SessionOptions& options) {
  std::string text;
  for (const session::CarriedOption& option : session::Carried(options))
    text += StrCat(text.empty() ? ", with " : ", ", option.name, " = ",
                   option.text.empty() ? StrCat(option.number) : std::string(option.text));
  return text;
}

}  // namespace

Result<std::shared_ptr<WorkerSession>> Worker::SessionOf(uint64_t id) {
  const std::lock_guard lock(mutex_);
  return Find(id);
}

Result<std::shared_ptr<WorkerSession>> Worker::Find(uint64_t id) {
  if (const auto at = sessions_.find(id); at != sessions_.end()) return at->second;
  if (stop_) return Stopping();
  return Status(Code::kAborted, StrCat("task ", options_.task, " has no session ", id,
                                       "; it was closed, or the task has been started again"));
}

Status Worker::EndOf(const std::string& owner, const std::string& secret) {
  std::vector<std::shared_ptr<WorkerSession>> earlier;
  const auto is_own = [&](const auto& session) {
    return session->owner == owner && SameSecret(session->owner_secret, secret);
  };
  std::unique_lock lock(mutex_);
  for (const auto& [id, session] : sessions_)
    if (is_own(session)) earlier.push_back(session);
  lock.unlock();
  for (const auto& session : earlier)
    background_.Later(
        [this, session, why = Status(Code::kCancelled, StrCat("another session of '", owner, "' has begun"))] {
          End(session, why);
        });
  earlier.clear();
  lock.lock();
  // One whose process has died ends as soon as its connection is seen to be gone.
  const auto none = [&] {
    const auto of_it = [&](const auto& session) { return session->owner == owner; };
    return std::none_of(sessions_.begin(), sessions_.end(), [&](const auto& each) { return of_it(each.second); }) &&
           std::none_of(ending_.begin(), ending_.end(), of_it);
  };
  if (changed_.wait_for(lock, kOwnerPatience, none)) return Status::Ok();
  const bool stranger = std::any_of(sessions_.begin(), sessions_.end(), [&](const auto& each) {
    return each.second->owner == owner && !is_own(each.second);
  });
  if (stranger)
    return Status(Code::kAborted, StrCat("task ", options_.task, " has a session of '", owner,
                                         "' that was opened with another secret than this one gives; it ends when its ",
                                         "master closes it, is gone, or is silent for its lease"));
  return Status(Code::kDeadlineExceeded, StrCat("the steps of an earlier session of '", owner, "' at task ",
                                                options_.task, " have not ended: ", BusyLocked()));
}

Status Worker::Open(tenon_peer* peer, tenon_span request, Reply reply) {
  OpenSession asked;
  TENON_RETURN_IF_ERROR(InPacket::Parse(request, &asked).status());
  session::SessionOptions options;
  for (const SessionOption& option : asked.options())
    TENON_RETURN_IF_ERROR(session::SetCarried({option.name(), option.number(), option.text()}, &options)
                              .Annotate("task ", options_.task));
  if (!asked.owner().empty() && !Planted(Bug::kOwnerIgnored))
    TENON_RETURN_IF_ERROR(EndOf(asked.owner(), asked.owner_secret()));
  if (asked.incarnation() != incarnation_)
    return Status(Code::kAborted, StrCat("task ", options_.task, " has been started again since it was greeted"));
  const std::string given = Say(options);
  if (!asked.isolate()) options.unnamed = unnamed_.get();
  options.one_task = true;
  options.budget = [this](const exec::Device& device) { return BudgetOf(device); };
  auto session = std::make_shared<WorkerSession>();
  TENON_ASSIGN_OR_RETURN(session->session, session::Session::Create(runtime_, std::move(options)));
  session->id = asked.session();
  session->owner = asked.owner();
  session->owner_secret = asked.owner_secret();
  session->master = peer;
  session->lease_ns = asked.lease_ns();
  session->silence_ns = asked.silence_ns();
  session->heard_ns = NowNs();
  TENON_RETURN_IF_ERROR(Admit(session));
  metrics_.SessionOpened();
  LogOf(session->id, TENON_LOG_INFO, StrCat("opened", given));
  Answer(reply, PingReply());
  return Status::Ok();
}

Status Worker::Admit(const std::shared_ptr<WorkerSession>& session) {
  const std::lock_guard lock(mutex_);
  if (stop_) return Stopping();
  if (sessions_.size() >= options_.max_sessions)
    return ResourceExhausted(StrCat("task ", options_.task, " has ", sessions_.size(),
                                    " sessions, as many as it may; close one, or raise --max-sessions"));
  if (!sessions_.emplace(session->id, session).second)
    return AlreadyExists(StrCat("session ", session->id, " is open at task ", options_.task));
  return Status::Ok();
}

// Shows that a part is being registered, for as long as it lives.
class Worker::Planning {
 public:
  Planning(Worker* worker, uint64_t session, uint32_t part) : worker_(worker) {
    const std::lock_guard lock(worker_->mutex_);
    at_ = worker_->planning_.emplace(session, part);
  }
  ~Planning() {
    const std::lock_guard lock(worker_->mutex_);
    worker_->planning_.erase(at_);
  }
  Planning(const Planning&) = delete;
  Planning& operator=(const Planning&) = delete;

 private:
  Worker* const worker_;
  std::multiset<std::pair<uint64_t, uint32_t>>::iterator at_;
};

// Values, and the token that proves this task, go to the tasks that its own cluster names.
Status Worker::CheckOwn(const Task& task) const {
  for (const Task& own : options_.tasks)
    if (own.name() == task.name() && WithScheme(own.address()) == WithScheme(task.address())) return Status::Ok();
  return Status(Code::kPermissionDenied, StrCat("the cluster of task ", options_.task, " has no task ", task.name(),
                                                " at ", task.address(), "; start all tasks with the same cluster"));
}

Status Worker::Register(tenon_span request, Reply reply) {
  RegisterPart asked;
  TENON_RETURN_IF_ERROR(InPacket::Parse(request, &asked).status());
  TENON_ASSIGN_OR_RETURN(const std::shared_ptr<WorkerSession> session, SessionOf(asked.session()));
  for (const Task& task : asked.tasks()) TENON_RETURN_IF_ERROR(CheckOwn(task));
  const Planning planning(this, asked.session(), asked.part());
  TENON_ASSIGN_OR_RETURN(PartPlan plan, PartPlan::Read(asked, runtime_->ops(), options_.task, &metrics_));
  TENON_RETURN_IF_ERROR(plan.Prepare(session->session.get(), asked));
  const std::shared_ptr<const WorkerPart> part = std::move(plan.part);
  for (const auto& [address, peer] : part->peers)
    TENON_RETURN_IF_ERROR(peers_->Verify(peer, Peers::PatienceOf(session->silence_ns)));
  {
    const std::lock_guard lock(mutex_);
    if (!session->parts.emplace(part->number, part).second)
      return AlreadyExists(StrCat("part ", asked.part(), " is registered"));
    session->last_part = std::max(session->last_part, part->number);
  }
  Answer(reply, PingReply());
  return Status::Ok();
}

Status Worker::Drop(tenon_span request, Reply reply) {
  DropParts asked;
  TENON_RETURN_IF_ERROR(InPacket::Parse(request, &asked).status());
  auto dropped = std::make_shared<std::vector<std::shared_ptr<const WorkerPart>>>();
  dropped->reserve(static_cast<size_t>(asked.parts_size()));
  {
    const std::lock_guard lock(mutex_);
    TENON_ASSIGN_OR_RETURN(const std::shared_ptr<WorkerSession> session, Find(asked.session()));
    if (!Planted(Bug::kDroppedPartStays))
      for (const uint32_t part : asked.parts()) dropped->push_back(session->Drop(part));
  }
  // A plan takes its time to go.
  background_.Later([dropped, reply]() mutable {
    dropped.reset();
    Answer(reply, PingReply());
  });
  return Status::Ok();
}

Status Worker::Reset(tenon_span request, Reply reply) {
  auto asked = std::make_shared<ResetRequest>();
  TENON_RETURN_IF_ERROR(InPacket::Parse(request, asked.get()).status());
  TENON_ASSIGN_OR_RETURN(const std::shared_ptr<WorkerSession> session, SessionOf(asked->session()));
  // What plugins kept takes its time to go.
  background_.Later([asked, session, reply] {
    std::vector<std::string_view> containers(asked->containers().begin(), asked->containers().end());
    if (Planted(Bug::kResetTakesAll)) containers.push_back("");
    Result<int64_t> dropped = session->session->ResetContainers(containers);
    if (!dropped.ok()) return reply.Fail(std::move(dropped).status());
    ResetReply answer;
    answer.set_dropped(static_cast<uint64_t>(*dropped));
    Answer(reply, answer);
  });
  return Status::Ok();
}

Status Worker::CloseSession(tenon_span request, Reply reply) {
  SessionRequest asked;
  TENON_RETURN_IF_ERROR(InPacket::Parse(request, &asked).status());
  TENON_ASSIGN_OR_RETURN(const std::shared_ptr<WorkerSession> session, SessionOf(asked.session()));
  // Waits for steps, which a callback may not.
  background_.Later([this, session, reply] {
    End(session, Status(Code::kCancelled, "the master closed the session"));
    Answer(reply, PingReply());
  });
  return Status::Ok();
}

void Worker::End(const std::shared_ptr<WorkerSession>& session, const Status& why) {
  std::vector<std::shared_ptr<WorkerStep>> steps;
  {
    const std::lock_guard lock(mutex_);
    if (!session->ended.ok()) return;
    session->ended = why;
    sessions_.erase(session->id);
    ending_.insert(session);
    for (const auto& [key, step] : session->steps) steps.push_back(step);
  }
  LogOf(session->id, steps.empty() ? TENON_LOG_INFO : TENON_LOG_WARNING,
        StrCat("ends with ", steps.size(), " open steps: ", why.message()));
  for (const std::shared_ptr<WorkerStep>& step : steps) {
    step->cancellation.Cancel(why);
    step->Abort(why);
  }
  session->session->Close(why);
  const std::lock_guard lock(mutex_);
  for (const auto& [key, step] : session->steps) NoLongerEarly(step.get());
  session->steps.clear();
  session->parts.clear();
  ending_.erase(session);
  changed_.notify_all();
}

void Worker::OnLost(tenon_peer* peer) {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, session] : sessions_) {
    if (session->master != peer) continue;
    background_.Later(
        [this, session = session] { End(session, Status(Code::kCancelled, "the session's master is gone")); });
  }
}

std::vector<std::shared_ptr<WorkerSession>> Worker::LateSessions(uint64_t now_ns) const {
  std::vector<std::shared_ptr<WorkerSession>> late;
  for (const auto& [id, session] : sessions_)
    if (session->lease_ns != 0 && !Planted(Bug::kLeaseIgnored) && now_ns > session->heard_ns + session->lease_ns)
      late.push_back(session);
  return late;
}

}  // namespace tenon::cluster
