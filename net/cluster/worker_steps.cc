// SPDX-License-Identifier: Apache-2.0
// Steps of parts: how they are found, run, settled, and given up.
#include "net/cluster/worker.h"

#include <algorithm>
#include <thread>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/trace/trace.h"
#include "net/cluster/planted.h"
#include "net/cluster/protocol.h"
#include "net/cluster/step_order.h"

namespace tenon::cluster {
namespace {

// A step that lasts longer has its peers asked whether they live.
constexpr uint64_t kLastsNs = 500'000'000;
// Of processor time: about what waking a thread takes. A program that did the same work in less, several times in a
// row, runs where the last of what it needs has come, until a run has kept that thread for kTooLongNs.
constexpr uint64_t kQuickNs = 20'000;
constexpr uint64_t kTooLongNs = 1'000'000;
// Steps whose values come before their master's message: of a session, and by way of one connection.
constexpr size_t kMostEarlySteps = 1024, kMostEarlyOfPeer = 4096;
// Steps of a session that stand still between calls, whether or not somebody will ever go on with them.
constexpr size_t kMostInGoes = 1024;

}  // namespace

Result<std::shared_ptr<WorkerStep>> Worker::StepOf(const std::shared_ptr<WorkerSession>& session, uint32_t part,
                                                   uint64_t step) {
  const auto at = session->parts.find(part);
  if (at == session->parts.end())
    return NotFound(StrCat("session ", session->id, " has no part ", part, " at task ", options_.task));
  if (!session->ended.ok()) return session->ended;
  if (session->IsOver(part, step)) return FailedPrecondition(StrCat("step ", step, " of part ", part, " is over"));
  const auto known = session->steps.find({part, step});
  if (known != session->steps.end()) return known->second;
  auto made = std::make_shared<WorkerStep>(&services_, session, at->second, step);
  session->steps.emplace(std::make_pair(part, step), made);
  return made;
}

Result<std::shared_ptr<WorkerStep>> Worker::EarlyStepOf(const std::shared_ptr<WorkerSession>& session, uint32_t part,
                                                        uint64_t step, tenon_peer* sender) {
  const bool is_new = !session->steps.contains({part, step});
  const auto brought = early_.find(sender);
  const size_t of_sender = brought == early_.end() ? 0 : brought->second;
  if (is_new && (session->early_steps >= kMostEarlySteps || of_sender >= kMostEarlyOfPeer))
    return ResourceExhausted(StrCat("values came for ", session->early_steps, " steps of session ", session->id,
                                    " that its master has not begun at task ", options_.task,
                                    ", and by way of one connection for ", of_sender, "; there may be ",
                                    kMostEarlySteps, " and ", kMostEarlyOfPeer));
  TENON_ASSIGN_OR_RETURN(const std::shared_ptr<WorkerStep> found, StepOf(session, part, step));
  if (is_new) {
    ++early_[sender];
    ++session->early_steps;
    found->early_of = sender;
  }
  return found;
}

void Worker::NoLongerEarly(WorkerStep* step) {
  tenon_peer* const sender = std::exchange(step->early_of, nullptr);
  if (sender == nullptr) return;
  --step->session->early_steps;
  const auto at = early_.find(sender);
  if (at != early_.end() && --at->second == 0) early_.erase(at);
}

Result<std::shared_ptr<WorkerStep>> Worker::BeginStep(const RunPart& head, tenon_reply* reply,
                                                      WorkerPart::Quick* quick) {
  const std::lock_guard lock(mutex_);
  TENON_ASSIGN_OR_RETURN(const std::shared_ptr<WorkerSession> session, Find(head.session()));
  TENON_ASSIGN_OR_RETURN(const std::shared_ptr<WorkerStep> step, StepOf(session, head.part(), head.step()));
  if (step->started()) return AlreadyExists(StrCat("step ", head.step(), " of part ", head.part(), " runs already"));
  if (step->part->in_goes && session->in_goes >= kMostInGoes)
    return ResourceExhausted(StrCat("session ", session->id, " has ", session->in_goes,
                                    " partial runs under way at task ", options_.task,
                                    ", as many as it may; finish some, or let go of them"));
  session->in_goes += step->part->in_goes;
  session->heard_ns = step->started_ns = NowNs();
  NoLongerEarly(step.get());
  running_.emplace(reply, step);
  ++queued_;
  if (coming_[reply]) step->cancellation.Cancel(Status(Code::kCancelled, "the master gave the step up"));
  *quick = step->part->quick;
  return step;
}

Status Worker::Run(tenon_span request, Reply reply) {
  auto order = std::make_shared<StepOrder>();
  order->reply = reply;
  TENON_ASSIGN_OR_RETURN(order->packet, InPacket::Parse(request, &order->head));
  WorkerPart::Quick quick;
  TENON_ASSIGN_OR_RETURN(const std::shared_ptr<WorkerStep> step, BeginStep(order->head, reply.reply, &quick));
  const WorkerPart& part = *step->part;
  if (part.in_goes) {
    --queued_;
    order->answer.set_came_ns(step->started_ns);
    step->goes->Begin(order->head.trace(), [this, step, order](Status status) {
      if (status.ok()) status = Guarded([&] { return order->TakeLeft(step.get()); });
      Conclude(step, order, std::move(status));
    });
    return Status::Ok();
  }
  std::function<void()> run;
  const Status read = Guarded([&] {
    run = [this, step, order] { RunStep(step, order); };
    order->status = order->Read(part);
    if (order->status.ok() && part.runs_through) order->program = part.callable->FixedProgram(order->pointers.data());
    // A connection that must be made first takes its time, which a callback has not.
    order->here = WorkerPart::IsQuick(quick, order->program) && network_->Has(part.targets);
  });
  if (!read.ok()) {  // the step has begun; it ends as others do
    order->status = read;
    order->here = false;
    RunStep(step, order);
  } else if (order->here) {
    step->RunWhenReady(std::move(run));
  } else {
    background_.Later(std::move(run));
  }
  return Status::Ok();
}

void Worker::RunStep(const std::shared_ptr<WorkerStep>& step, const std::shared_ptr<StepOrder>& order) {
  const LogScope scope({options_.task, step->session->id, step->number});
  --queued_;
  order->answer.set_came_ns(step->started_ns);
  order->began = order->here ? NowNs() : ThreadCpuNs();
  order->thread = std::this_thread::get_id();
  Status asked = Guarded([&] { step->AskFirst(); });
  if (!asked.ok()) return Computed(step, order, std::move(asked));
  order->Compute(step, [this, step, order](Status status) { Computed(step, order, std::move(status)); });
}

void Worker::Computed(const std::shared_ptr<WorkerStep>& step, const std::shared_ptr<StepOrder>& order, Status status) {
  if (status.ok()) status = Guarded([&] { step->AskNoMore(); });
  const bool quickly = order->thread == std::this_thread::get_id() &&
                       (order->here ? NowNs() - order->began < kTooLongNs : ThreadCpuNs() - order->began < kQuickNs);
  {
    const std::lock_guard lock(mutex_);
    step->part->Took(order->program, quickly);
  }
  if (!status.ok()) return Conclude(step, order, std::move(status));
  const Status waited = Guarded([&] {
    step->WhenGiven([this, step, order] {
      Conclude(step, order, step->cancellation.cancelled() ? step->cancellation.reason() : Status::Ok());
    });
  });
  if (!waited.ok()) Conclude(step, order, waited);
}

void Worker::Conclude(const std::shared_ptr<WorkerStep>& step, const std::shared_ptr<StepOrder>& order, Status status) {
  const LogScope scope({options_.task, step->session->id, step->number});
  const Reply& reply = order->reply;
  {
    const std::lock_guard lock(mutex_);
    running_.erase(reply.reply);
  }
  Status told = Guarded([&] {
    EndStep(step.get());
    metrics_.StepEnded(status);
    order->answer.set_answered_ns(trace::Trace::Now());
    if (status.ok()) order->out.Finish(order->answer);
  });
  if (status.ok()) status = std::move(told);
  if (!status.ok()) {
    const bool usual =
        status.code() == Code::kCancelled || status.code() == Code::kOutOfRange;  // given up; at the end of its input
    Log(usual ? TENON_LOG_INFO : TENON_LOG_WARNING, status.message());
    return reply.Fail(std::move(status));
  }
  reply.Give(order->out.pieces(), [order] {});
}

void Worker::EndStep(WorkerStep* step) {
  std::shared_ptr<WorkerStep> ended;
  std::vector<Reply> settles;
  {
    const std::lock_guard lock(mutex_);
    settles.swap(step->settles);
    step->session->in_goes -= step->part->in_goes;
    const auto at = step->session->steps.find({step->part->number, step->number});
    if (at != step->session->steps.end()) {
      ended = std::move(at->second);
      step->session->steps.erase(at);
    }
    step->session->End(step->part->number, step->number);
  }
  for (const Reply& reply : settles) Answer(reply, PingReply());
}

Status Worker::Settle(tenon_span request, Reply reply) {
  StepRequest asked;
  TENON_RETURN_IF_ERROR(InPacket::Parse(request, &asked).status());
  std::shared_ptr<WorkerStep> forgotten;
  {
    const std::lock_guard lock(mutex_);
    TENON_ASSIGN_OR_RETURN(const std::shared_ptr<WorkerSession> session, Find(asked.session()));
    const auto at = session->steps.find({asked.part(), asked.step()});
    if (at != session->steps.end() && at->second->started()) {
      at->second->settles.push_back(reply);
      return Status::Ok();
    }
    if (at != session->steps.end()) {
      NoLongerEarly(at->second.get());
      forgotten = std::move(at->second);
      session->steps.erase(at);
    }
    session->End(asked.part(), asked.step());
  }
  Answer(reply, PingReply());
  return Status::Ok();
}

Status Worker::Go(tenon_span request, Reply reply) {
  auto order = std::make_shared<GoOrder>();
  order->reply = reply;
  order->answer.set_came_ns(NowNs());
  TENON_ASSIGN_OR_RETURN(order->packet, InPacket::Parse(request, &order->head));
  const GoStep& asked = order->head;
  std::shared_ptr<WorkerStep> step;
  {
    const std::lock_guard lock(mutex_);
    TENON_ASSIGN_OR_RETURN(const std::shared_ptr<WorkerSession> session, Find(asked.session()));
    session->heard_ns = NowNs();
    const auto at = session->steps.find({asked.part(), asked.step()});
    if (at != session->steps.end() && at->second->started()) step = at->second;
    else if (!session->IsOver(asked.part(), asked.step()))
      return NotFound(
          StrCat("step ", asked.step(), " of part ", asked.part(), " has not begun at task ", options_.task));
  }
  if (step != nullptr && step->goes == nullptr)
    return InvalidArgument(StrCat("part ", asked.part(), " runs its steps at one go"));
  if (step != nullptr) return step->goes->Ask(order);
  order->answer.set_over(true);
  Answer(reply, order->answer);
  return Status::Ok();
}

void Worker::OnCancelled(tenon_reply* reply) {
  const std::lock_guard lock(mutex_);
  if (const auto at = running_.find(reply); at != running_.end()) {
    // Outside of the lock it might be over; a cancellation calls what holds no lock of ours.
    const std::shared_ptr<WorkerStep> step = at->second;
    background_.Later([step] { step->cancellation.Cancel(Status(Code::kCancelled, "the master gave the step up")); });
  } else if (const auto coming = coming_.find(reply); coming != coming_.end()) {
    coming->second = true;
  }
}

std::map<std::string, Peers::Busy> Worker::BusyPeers(uint64_t now_ns) const {
  std::map<std::string, Peers::Busy> busy;
  for (const auto& [reply, step] : running_) {
    if (now_ns <= step->started_ns + kLastsNs) continue;
    for (const auto& [address, peer] : step->part->peers) {
      Peers::Busy& one = busy.try_emplace(address, Peers::Busy{peer, 0}).first->second;
      one.patience_ns = std::max(one.patience_ns, Peers::PatienceOf(step->session->silence_ns));
    }
  }
  return busy;
}

void Worker::LosePeer(const std::string& address, std::string_view why, bool noted) {
  std::vector<std::shared_ptr<WorkerStep>> steps;
  const auto known = std::find_if(options_.tasks.begin(), options_.tasks.end(),
                                  [&](const Task& task) { return WithScheme(task.address()) == WithScheme(address); });
  const Status status(Code::kUnavailable, StrCat("task ", known == options_.tasks.end() ? std::string() : known->name(),
                                                 " at ", address, ": ", why));
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, session] : sessions_) {
      if (noted && session->HasPeer(address) && !Planted(Bug::kLossNotTold)) session->Note(status, 0, address);
      for (const auto& [key, step] : session->steps)
        if (step->part->peers.contains(address)) steps.push_back(step);
    }
  }
  for (const std::shared_ptr<WorkerStep>& step : steps) step->cancellation.Cancel(status);
}

void Worker::CountSteps(WorkerState* out) const {
  std::vector<std::shared_ptr<WorkerStep>> steps;
  {
    const std::lock_guard lock(mutex_);
    out->sessions = sessions_.size();
    out->steps_queued = queued_;
    out->steps_running = running_.size() - queued_;
    for (const auto& [id, session] : sessions_) {
      out->parts += session->parts.size();
      for (const auto& [key, step] : session->steps) {
        out->steps_expected += !step->started();
        steps.push_back(step);
      }
    }
  }
  for (const auto& step : steps) out->values_waiting += step->waiting();
}

}  // namespace tenon::cluster
