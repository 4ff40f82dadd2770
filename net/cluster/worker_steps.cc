// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/worker_steps.h"

#include <thread>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/trace/trace.h"
#include "net/cluster/protocol.h"

namespace tenon::cluster {
namespace {

// Of processor time: about what waking a thread takes. A program that did the same work in less, several times in a
// row, runs where the last of what it needs has come, until a run has kept that thread for kTooLongNs.
constexpr uint64_t kQuickNs = 20'000;
constexpr uint64_t kTooLongNs = 1'000'000;

const char* const kGivenUp = "the master gave the step up";

}  // namespace

// ---- A step ----

Status WorkerSteps::Run(tenon_span request, Reply reply) {
  auto order = std::make_shared<StepOrder>();
  order->reply = reply;
  TENON_ASSIGN_OR_RETURN(order->packet, InPacket::Parse(request, &order->head));
  TENON_ASSIGN_OR_RETURN(const SessionTable::Session session, table_->Find(order->head.session()));
  TENON_ASSIGN_OR_RETURN(const std::shared_ptr<WorkerStep> step,
                         session->Begin(order->head.part(), order->head.step()));
  if (running_->Add(reply.reply, step)) step->cancellation.Cancel(Status(Code::kCancelled, kGivenUp));
  const Work work{session, step, order};
  if (step->part->in_goes) BeginGoes(work);
  else Schedule(work);
  return Status::Ok();
}

void WorkerSteps::BeginGoes(const Work& work) {
  running_->TakeUp();
  work.order->answer.set_came_ns(work.step->started_ns);
  work.step->goes->Begin(work.order->head.trace(), [this, work](Status status) {
    if (status.ok()) status = Guarded([&] { return work.order->TakeLeft(work.step.get()); });
    Conclude(work, std::move(status));
  });
}

void WorkerSteps::Schedule(const Work& work) {
  StepOrder& order = *work.order;
  const WorkerPart& part = *work.step->part;
  std::function<void()> run;
  const Status read = Guarded([&] {
    run = [this, work] { RunStep(work); };
    order.status = order.Read(part);
    if (order.status.ok() && part.runs_through) order.program = part.callable->FixedProgram(order.pointers.data());
    // A connection that must be made first takes its time, which a callback has not.
    order.here = part.quick.IsQuick(order.program) && services_->network->Has(part.targets);
  });
  if (!read.ok()) {  // the step has begun; it ends as others do
    order.status = read;
    order.here = false;
    RunStep(work);
  } else if (order.here) {
    work.step->RunWhenReady(std::move(run));
  } else {
    services_->background->Later(std::move(run));
  }
}

void WorkerSteps::RunStep(const Work& work) {
  const auto& [session, step, order] = work;
  const LogScope scope({services_->task, step->session->id, step->number});
  running_->TakeUp();
  order->answer.set_came_ns(step->started_ns);
  order->began = order->here ? NowNs() : ThreadCpuNs();
  order->thread = std::this_thread::get_id();
  Status asked = Guarded([&] { work.step->AskFirst(); });
  if (!asked.ok()) return Computed(work, std::move(asked));
  order->Compute(step, [this, work](Status status) { Computed(work, std::move(status)); });
}

void WorkerSteps::Computed(const Work& work, Status status) {
  const StepOrder& order = *work.order;
  if (status.ok()) status = Guarded([&] { work.step->AskNoMore(); });
  const bool quickly = order.thread == std::this_thread::get_id() &&
                       (order.here ? NowNs() - order.began < kTooLongNs : ThreadCpuNs() - order.began < kQuickNs);
  work.step->part->quick.Took(order.program, quickly);
  if (!status.ok()) return Conclude(work, std::move(status));
  const Status waited = Guarded([&] {
    work.step->WhenGiven([this, work] {
      const Cancellation& cancellation = work.step->cancellation;
      Conclude(work, cancellation.cancelled() ? cancellation.reason() : Status::Ok());
    });
  });
  if (!waited.ok()) Conclude(work, waited);
}

void WorkerSteps::Conclude(const Work& work, Status status) {
  const auto& [session, step, order] = work;
  const LogScope scope({services_->task, step->session->id, step->number});
  const Reply& reply = order->reply;
  running_->Remove(reply.reply);
  Status told = Guarded([&] {
    for (const Reply& settled : work.session->End(work.step.get())) Answer(settled, PingReply());
    services_->metrics->StepEnded(status);
    work.order->answer.set_answered_ns(trace::Trace::Now());
    if (status.ok()) work.order->out.Finish(work.order->answer);
  });
  if (status.ok()) status = std::move(told);
  if (!status.ok()) {
    const bool usual =
        status.code() == Code::kCancelled || status.code() == Code::kOutOfRange;  // given up; at the end of its input
    Log(usual ? TENON_LOG_INFO : TENON_LOG_WARNING, status.message());
    return reply.Fail(std::move(status));
  }
  reply.Give(order->out.pieces(), [kept = order] {});
}

// ---- What is said of a step ----

Status WorkerSteps::Settle(tenon_span request, Reply reply) {
  StepRequest asked;
  TENON_RETURN_IF_ERROR(InPacket::Parse(request, &asked).status());
  TENON_ASSIGN_OR_RETURN(const SessionTable::Session session, table_->Find(asked.session()));
  if (session->Settle(asked.part(), asked.step(), reply)) Answer(reply, PingReply());
  return Status::Ok();
}

Status WorkerSteps::Go(tenon_span request, Reply reply) {
  auto order = std::make_shared<GoOrder>();
  order->reply = reply;
  order->answer.set_came_ns(NowNs());
  TENON_ASSIGN_OR_RETURN(order->packet, InPacket::Parse(request, &order->head));
  const GoStep& asked = order->head;
  TENON_ASSIGN_OR_RETURN(const SessionTable::Session session, table_->Find(asked.session()));
  session->session->heard_ns = NowNs();
  TENON_ASSIGN_OR_RETURN(const std::shared_ptr<WorkerStep> step, session->Running(asked.part(), asked.step()));
  if (step != nullptr && step->goes == nullptr)
    return InvalidArgument(StrCat("part ", asked.part(), " runs its steps at one go"));
  if (step != nullptr) return step->goes->Ask(order);
  order->answer.set_over(true);
  Answer(reply, order->answer);
  return Status::Ok();
}

void WorkerSteps::OnCancelled(tenon_reply* call) {
  // A cancellation may call what takes its time.
  if (const std::shared_ptr<WorkerStep> step = running_->Cancelled(call))
    services_->background->Later([step] { step->cancellation.Cancel(Status(Code::kCancelled, kGivenUp)); });
}

}  // namespace tenon::cluster
