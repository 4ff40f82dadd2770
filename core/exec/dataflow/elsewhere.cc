// SPDX-License-Identifier: Apache-2.0
#include "core/exec/dataflow/elsewhere.h"

#include <algorithm>

#include "core/base/clock.h"
#include "core/exec/dataflow/kernel_calls.h"
#include "core/exec/device/async_calls.h"
#include "core/exec/device/environment.h"
#include "core/exec/device/step.h"
#include "core/exec/kernel/watch.h"
#include "core/exec/threads/host_threads.h"
#include "core/graph/op_def.h"
#include "core/trace/trace.h"

namespace tenon::exec::dataflow {
namespace {

// The status with the node's name, if there is memory for it.
Status At(const graph::Node& node, Status status) noexcept {
  if (status.ok()) return status;
  (void)Guarded([&] { status = std::move(status).Annotate(node.Describe()); });
  return status;
}

}  // namespace

void Elsewhere::Start(Call* call) {
  ++outstanding_;
  call->elsewhere = true;
  call->number = nullptr;
  call->plugin = &call->last->kernel->plugin();
  call->function = "run";
  call->status = Status::Ok();
  call->begin_ns = step_->trace != nullptr ? trace::Trace::Now() : 0;
  // What could not be begun comes back as what has failed.
  Status refused = Guarded([&] { return StartThere(call); });
  if (refused.ok()) return;
  call->status = At(*call->node, std::move(refused));
  Post(call);
}

Status Elsewhere::StartThere(Call* call) {
  if (call->last->workspace_bytes > 0) {
    auto workspace = plan_.plan().env().pool->Allocate(call->last->workspace_bytes, {nullptr, 0, 0});
    if (!workspace.ok()) return std::move(workspace).status().Annotate("its workspace");
    call->workspace = *workspace;
    call->frame.workspace = call->workspace->data;
  }
  const tenon_kernel_registration& kernel = call->last->kernel->registration();
  if ((kernel.traits & TENON_KERNEL_ASYNC) != 0 && kernel.run_async != nullptr) {
    call->function = "run_async";
    TENON_ASSIGN_OR_RETURN(void* const number,
                           AsyncCalls::The().Open(call, {*call->plugin, "run_async() of node", call->node->name}));
    call->number = number;
    tenon_status* refused = StartAsync(*call->last->kernel, call->last->prepared, &call->frame, number);
    if (refused != nullptr) CallDone(number, refused);
    return Status::Ok();
  }
  const auto run = [call] { RunThere(call); };
  if ((kernel.traits & TENON_KERNEL_BLOCKING) != 0) return step_->env->threads->ScheduleWaiting(run);
  call->computes = true;
  ++computing_;
  if (!step_->env->threads->Schedule(run).ok()) run();
  return Status::Ok();
}

void Elsewhere::RunThere(Call* call) {
  const uint64_t begin = NowNs();
  if (call->begin_ns != 0) call->step->trace->Add("wait for a thread", "wait", call->begin_ns, begin, call->node->name);
  call->status = Guarded([&] { return KernelCalls::RunTimed(*call->last, &call->frame); });
  call->home->Post(call);
}

tenon_status* Elsewhere::StartAsync(const KernelInstance& kernel, const tenon_prepared* prepared, tenon_frame* frame,
                                    void* number) {
  const KernelCall mark(frame);
  try {
    return kernel.registration().run_async(kernel.state(), prepared, frame, &CallDone, number);
  } catch (...) {
    EndLostUpdates(*frame);
    return Thrown(kernel.plugin(), "run_async").release();
  }
}

void Elsewhere::CallDone(void* argument, tenon_status* status) {
  auto* call = static_cast<Call*>(AsyncCalls::The().Close(argument));
  if (call == nullptr) return ReleaseStatus(status);
  if (call->step->trace != nullptr) call->end_ns = trace::Trace::Now();
  call->status = At(*call->node, Status(status));
  ReleasePins(call);
  if (call->status.ok() && IsWatched(*call->step)) call->status = Guarded([&] { return LookAtOutputs(&call->frame); });
  // The step's thread may be waiting for a queue that waits for what will not come now.
  if (!call->status.ok() && call->home->plan_.plan().uses_queues() && !call->step->cancellation->cancelled())
    call->step->cancellation->Cancel(call->status);
  call->home->Post(call);
}

void Elsewhere::Post(Call* call) {
  std::unique_lock lock(mutex_);
  calls_.Put(call);
  HasCome(&lock);
}

void Elsewhere::Receive(const NodeInfo& info, Iteration* iteration, const RendezvousKey& key) {
  if (spare_receipts_.empty()) {
    spare_receipts_.reserve(receipts_.size() + 1);  // all may come back
    spare_receipts_.push_back(receipts_.emplace_back(std::make_unique<Receipt>()).get());
  }
  Receipt* receipt = spare_receipts_.back();
  spare_receipts_.pop_back();
  receipt->info = &info;
  receipt->iteration = iteration;
  receipt->begin_ns = step_->trace == nullptr ? 0 : trace::Trace::Now();
  ++outstanding_;
  Status refused = Guarded([&] {
    step_->rendezvous->Receive(key,
                               [this, receipt](Result<Message> message) { Arrived(receipt, std::move(message)); });
  });
  if (!refused.ok()) Arrived(receipt, std::move(refused));
}

void Elsewhere::Arrived(Receipt* receipt, Result<Message> message) {
  receipt->message = std::move(message);
  std::unique_lock lock(mutex_);
  arrived_.Put(receipt);
  HasCome(&lock);
}

void Elsewhere::HasCome(std::unique_lock<std::mutex>* lock) {
  wake_.notify_one();
  const std::shared_ptr<Resumer> resumer = std::exchange(parked_, false) ? step_->resumer : nullptr;
  lock->unlock();
  if (resumer != nullptr) resumer->Resume();
}

bool Elsewhere::MayStandStill() {
  {
    std::lock_guard lock(mutex_);
    if (outstanding_ == 0 || !calls_.empty() || !arrived_.empty()) return false;
  }
  const auto receives = static_cast<int64_t>(receipts_.size() - spare_receipts_.size());
  step_->left_elsewhere = receives != outstanding_;
  return !step_->left_elsewhere || (step_->trace == nullptr && step_->watcher == nullptr && step_->enough());
}

bool Elsewhere::Park() {
  {
    const std::lock_guard lock(mutex_);
    if (!calls_.empty() || !arrived_.empty()) return false;
    parked_ = true;
  }
  unpark_.Begin(step_->cancellation, [this](const Status&) {
    std::unique_lock lock(mutex_);
    HasCome(&lock);
  });
  return true;
}

void Elsewhere::Await(const Frames& frames) {
  const auto has_come = [this] { return !calls_.empty() || !arrived_.empty(); };
  if (step_->cancellation->cancelled()) {
    std::unique_lock lock(mutex_);
    const std::chrono::seconds patience = Patience(frames);
    if (patience.count() == 0) wake_.wait(lock, has_come);
    else if (!wake_.wait_for(lock, patience, has_come)) abandoned_ = true;
    return;
  }
  bool cancelled = false;
  const Subscription subscription(step_->cancellation, [&](const Status&) {
    std::lock_guard lock(mutex_);
    cancelled = true;
    wake_.notify_one();
  });
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [&] { return cancelled || has_come(); });
}

std::chrono::seconds Elsewhere::Patience(const Frames& frames) const {
  constexpr std::chrono::seconds kForDone(5), kForThreads(30);
  std::chrono::seconds patience(0);
  for (const auto& iteration : frames.iterations())
    for (size_t i = 0; i < iteration->info->kernels.size(); ++i)
      if (iteration->calls[i].elsewhere)
        patience = std::max(patience, iteration->calls[i].number == nullptr ? kForThreads : kForDone);
  return patience;
}

std::optional<Elsewhere::Arrival> Elsewhere::TakeArrival() {
  Receipt* receipt = nullptr;
  {
    const std::lock_guard lock(mutex_);
    receipt = arrived_.Take();
  }
  if (receipt == nullptr) return std::nullopt;
  std::optional<Arrival> arrival(
      Arrival{receipt->info, receipt->iteration, receipt->begin_ns, *std::move(receipt->message)});
  receipt->message.reset();
  spare_receipts_.push_back(receipt);
  --outstanding_;
  return arrival;
}

Call* Elsewhere::TakeCall() {
  Call* call = nullptr;
  {
    const std::lock_guard lock(mutex_);
    call = calls_.Take();
  }
  if (call == nullptr) return nullptr;
  --outstanding_;
  call->elsewhere = false;
  if (std::exchange(call->computes, false)) --computing_;
  if (call->workspace != nullptr) Release(std::exchange(call->workspace, nullptr));
  if (call->end_ns != 0)
    step_->trace->Add(call->node->name, call->node->op->name, call->begin_ns, std::exchange(call->end_ns, 0));
  return call;
}

std::string Elsewhere::GiveUp(const Frames& frames) const {
  std::string who;
  const auto note = [&](const Call& call) {
    who += StrCat(who.empty() ? "" : "; ", call.node->Describe(), ": ", DescribePlugin(*call.plugin), ": its ",
                  call.function, "() has not ", call.number != nullptr ? "called done" : "returned");
  };
  for (const auto& iteration : frames.iterations())
    for (size_t i = 0; i < iteration->info->kernels.size(); ++i) {
      const Call& call = iteration->calls[i];
      if (!call.elsewhere) continue;
      if (call.number != nullptr) AsyncCalls::The().GiveUp(call.number);
      (void)Guarded([&] { note(call); });  // without memory for a name it goes without
    }
  return who;
}

}  // namespace tenon::exec::dataflow
