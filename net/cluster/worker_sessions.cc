// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/worker_sessions.h"

#include <algorithm>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/exec/device/resources.h"
#include "net/cluster/planted.h"
#include "net/cluster/protocol.h"

namespace tenon::cluster {
namespace {

// ", with compile = 0": the options that are not what they are by default.
std::string Say(const session::SessionOptions& options) {
  std::string text;
  for (const session::CarriedOption& option : session::Carried(options))
    text += StrCat(text.empty() ? ", with " : ", ", option.name, " = ",
                   option.text.empty() ? StrCat(option.number) : std::string(option.text));
  return text;
}

}  // namespace

WorkerSessions::WorkerSessions(Parts parts)
    : parts_(std::move(parts)), unnamed_(std::make_unique<exec::ResourceManager>()) {}

WorkerSessions::~WorkerSessions() { unnamed_->ClearAll(); }

void WorkerSessions::Log(uint64_t session, uint32_t level, std::string_view text) const {
  const LogScope scope({parts_.services->task, session});
  tenon::Log(level, text);
}

// ---- How they begin ----

Status WorkerSessions::EndOf(const std::string& owner, const std::string& secret) {
  for (const SessionTable::Session& session : parts_.table->OwnedBy(owner, secret))
    parts_.services->background->Later(
        [this, session, why = Status(Code::kCancelled, StrCat("another session of '", owner, "' has begun"))] {
          End(session, why);
        });
  return parts_.table->AwaitNoneOf(owner, secret);
}

Result<std::shared_ptr<session::Session>> WorkerSessions::Make(const OpenSession& asked,
                                                               session::SessionOptions options) const {
  if (!asked.isolate()) options.unnamed = unnamed_.get();
  options.one_task = true;
  options.budget = [this](const exec::Device& device) { return parts_.budgets->Of(device); };
  return session::Session::Create(parts_.runtime, std::move(options));
}

Status WorkerSessions::Open(tenon_peer* peer, tenon_span request, Reply reply) {
  const std::string& task = parts_.services->task;
  OpenSession asked;
  TENON_RETURN_IF_ERROR(InPacket::Parse(request, &asked).status());
  session::SessionOptions options;
  for (const SessionOption& option : asked.options())
    TENON_RETURN_IF_ERROR(
        session::SetCarried({option.name(), option.number(), option.text()}, &options).Annotate("task ", task));
  if (!asked.owner().empty() && !Planted(Bug::kOwnerIgnored))
    TENON_RETURN_IF_ERROR(EndOf(asked.owner(), asked.owner_secret()));
  if (asked.incarnation() != parts_.incarnation)
    return Status(Code::kAborted, StrCat("task ", task, " has been started again since it was greeted"));
  const std::string given = Say(options);
  auto session = std::make_shared<WorkerSession>();
  TENON_ASSIGN_OR_RETURN(session->session, Make(asked, std::move(options)));
  session->id = asked.session();
  session->owner = asked.owner();
  session->owner_secret = asked.owner_secret();
  session->master = peer;
  session->lease_ns = asked.lease_ns();
  session->silence_ns = asked.silence_ns();
  session->heard_ns = NowNs();
  TENON_RETURN_IF_ERROR(
      parts_.table->Admit(std::make_shared<SessionParts>(session, parts_.services, parts_.early)));
  parts_.services->metrics->SessionOpened();
  Log(session->id, TENON_LOG_INFO, StrCat("opened", given));
  Answer(reply, PingReply());
  return Status::Ok();
}

// ---- What they register ----

// Values, and the token that proves this task, go to the tasks that its own cluster names.
Status WorkerSessions::CheckOwn(const Task& task) const {
  for (const Task& own : parts_.tasks)
    if (own.name() == task.name() && WithScheme(own.address()) == WithScheme(task.address())) return Status::Ok();
  return Status(Code::kPermissionDenied,
                StrCat("the cluster of task ", parts_.services->task, " has no task ", task.name(), " at ",
                       task.address(), "; start all tasks with the same cluster"));
}

Status WorkerSessions::Register(tenon_span request, Reply reply) {
  RegisterPart asked;
  TENON_RETURN_IF_ERROR(InPacket::Parse(request, &asked).status());
  TENON_ASSIGN_OR_RETURN(const SessionTable::Session session, parts_.table->Find(asked.session()));
  for (const Task& task : asked.tasks()) TENON_RETURN_IF_ERROR(CheckOwn(task));
  const SessionTable::Planning planning(parts_.table, asked.session(), asked.part());
  TENON_ASSIGN_OR_RETURN(PartPlan plan, PartPlan::Read(asked, parts_.runtime->ops(), parts_.services->task,
                                                       parts_.services->metrics));
  TENON_RETURN_IF_ERROR(plan.Prepare(session->session->session.get(), asked));
  const std::shared_ptr<const WorkerPart> part = std::move(plan.part);
  for (const auto& [address, peer] : part->peers)
    TENON_RETURN_IF_ERROR(parts_.peers->Verify(peer, Peers::PatienceOf(session->session->silence_ns)));
  TENON_RETURN_IF_ERROR(session->Add(part));
  Answer(reply, PingReply());
  return Status::Ok();
}

Status WorkerSessions::Drop(tenon_span request, Reply reply) {
  DropParts asked;
  TENON_RETURN_IF_ERROR(InPacket::Parse(request, &asked).status());
  auto dropped = std::make_shared<std::vector<std::shared_ptr<const WorkerPart>>>();
  TENON_ASSIGN_OR_RETURN(const SessionTable::Session session, parts_.table->Find(asked.session()));
  if (!Planted(Bug::kDroppedPartStays)) *dropped = session->Drop(asked.parts());
  // A plan takes its time to go.
  parts_.services->background->Later([dropped, reply]() mutable {
    dropped.reset();
    Answer(reply, PingReply());
  });
  return Status::Ok();
}

Status WorkerSessions::Reset(tenon_span request, Reply reply) {
  auto asked = std::make_shared<ResetRequest>();
  TENON_RETURN_IF_ERROR(InPacket::Parse(request, asked.get()).status());
  TENON_ASSIGN_OR_RETURN(const SessionTable::Session session, parts_.table->Find(asked->session()));
  // What plugins kept takes its time to go.
  parts_.services->background->Later([asked, session, reply] {
    std::vector<std::string_view> containers(asked->containers().begin(), asked->containers().end());
    if (Planted(Bug::kResetTakesAll)) containers.push_back("");
    Result<int64_t> dropped = session->session->session->ResetContainers(containers);
    if (!dropped.ok()) return reply.Fail(std::move(dropped).status());
    ResetReply answer;
    answer.set_dropped(static_cast<uint64_t>(*dropped));
    Answer(reply, answer);
  });
  return Status::Ok();
}

// ---- How they end ----

Status WorkerSessions::Close(tenon_span request, Reply reply) {
  SessionRequest asked;
  TENON_RETURN_IF_ERROR(InPacket::Parse(request, &asked).status());
  TENON_ASSIGN_OR_RETURN(const SessionTable::Session session, parts_.table->Find(asked.session()));
  // Waits for steps, which a callback may not.
  parts_.services->background->Later([this, session, reply] {
    End(session, Status(Code::kCancelled, "the master closed the session"));
    Answer(reply, PingReply());
  });
  return Status::Ok();
}

void WorkerSessions::End(const SessionTable::Session& session, const Status& why) {
  if (!parts_.table->BeginEnd(session)) return;
  const SessionParts::Steps steps = session->Close(why);
  Log(session->session->id, steps.empty() ? TENON_LOG_INFO : TENON_LOG_WARNING,
      StrCat("ends with ", steps.size(), " open steps: ", why.message()));
  for (const std::shared_ptr<WorkerStep>& step : steps) {
    step->cancellation.Cancel(why);
    step->Abort(why);
  }
  session->session->session->Close(why);
  session->Clear();
  parts_.table->Ended(session);
}

void WorkerSessions::EndAll() {
  for (const SessionTable::Session& session : parts_.table->All()) End(session, parts_.table->Stopping());
}

void WorkerSessions::EndLate(uint64_t now_ns) {
  for (const SessionTable::Session& session : parts_.table->Late(now_ns))
    End(session, Status(Code::kCancelled, "the session's master has not been heard of for its lease"));
}

void WorkerSessions::OnLost(tenon_peer* master) {
  for (const SessionTable::Session& session : parts_.table->OfMaster(master))
    parts_.services->background->Later(
        [this, session] { End(session, Status(Code::kCancelled, "the session's master is gone")); });
}

void WorkerSessions::LosePeer(const std::string& address, std::string_view why, bool noted) {
  const auto known = std::find_if(parts_.tasks.begin(), parts_.tasks.end(),
                                  [&](const Task& task) { return WithScheme(task.address()) == WithScheme(address); });
  const Status status(Code::kUnavailable, StrCat("task ", known == parts_.tasks.end() ? std::string() : known->name(),
                                                 " at ", address, ": ", why));
  SessionParts::Steps with;
  for (const SessionTable::Session& session : parts_.table->All())
    for (const std::shared_ptr<WorkerStep>& step : session->LosePeer(address, status, noted)) with.push_back(step);
  for (const std::shared_ptr<WorkerStep>& step : with) step->cancellation.Cancel(status);
}

}  // namespace tenon::cluster
