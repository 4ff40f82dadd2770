// SPDX-License-Identifier: Apache-2.0
// Kernels that run elsewhere: asynchronous ones, and those that get a thread. They come back through the inbox.
#include "core/exec/dataflow/dynamic_instance.h"

#include <algorithm>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/exec/device/async_calls.h"
#include "core/exec/device/environment.h"
#include "core/exec/device/step.h"
#include "core/exec/kernel/watch.h"
#include "core/exec/threads/host_threads.h"
#include "core/graph/op_def.h"
#include "core/trace/trace.h"

namespace tenon::exec {

namespace {

// The status with the node's name, if there is memory for it.
Status At(const graph::Node& node, Status status) noexcept {
  if (status.ok()) return status;
  (void)Guarded([&] { status = std::move(status).Annotate(node.Describe()); });
  return status;
}

}  // namespace

void DynamicInstance::StartElsewhere(Call* call) {
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

// OK: the call will be posted, or was.
Status DynamicInstance::StartThere(Call* call) {
  if (call->last->workspace_bytes > 0) {
    auto workspace = pool_->Allocate(call->last->workspace_bytes, {nullptr, 0, 0});
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

void DynamicInstance::RunThere(Call* call) {
  const uint64_t begin = NowNs();
  if (call->begin_ns != 0) call->step->trace->Add("wait for a thread", "wait", call->begin_ns, begin, call->node->name);
  call->status = Guarded([&] { return RunTimed(*call->last, &call->frame); });
  call->instance->Post(call);
}

tenon_status* DynamicInstance::StartAsync(const KernelInstance& kernel, const tenon_prepared* prepared,
                                          tenon_frame* frame, void* number) {
  const KernelCall mark(frame);
  try {
    return kernel.registration().run_async(kernel.state(), prepared, frame, &CallDone, number);
  } catch (...) {
    EndLostUpdates(*frame);
    return Thrown(kernel.plugin(), "run_async").release();
  }
}

void DynamicInstance::CallDone(void* argument, tenon_status* status) {
  auto* call = static_cast<Call*>(AsyncCalls::The().Close(argument));
  if (call == nullptr) return ReleaseStatus(status);
  if (call->step->trace != nullptr) call->end_ns = trace::Trace::Now();
  call->status = At(*call->node, Status(status));
  ReleasePins(call);
  if (call->status.ok() && IsWatched(*call->step)) call->status = Guarded([&] { return LookAtOutputs(&call->frame); });
  // The step's thread may be waiting for a queue that waits for what will not come now.
  if (!call->status.ok() && call->instance->plan_->plan().uses_queues() && !call->step->cancellation->cancelled())
    call->step->cancellation->Cancel(call->status);
  call->instance->Post(call);
}

void DynamicInstance::Post(Call* call) {
  std::unique_lock lock(inbox_mutex_);
  inbox_.Put(call);
  HasCome(&lock);
}

// Somebody has put something in. Without the lock nothing here is touched: the step may end.
void DynamicInstance::HasCome(std::unique_lock<std::mutex>* lock) {
  inbox_wake_.notify_one();
  const std::shared_ptr<Resumer> resumer = std::exchange(parked_, false) ? step_->resumer : nullptr;
  lock->unlock();
  if (resumer != nullptr) resumer->Resume();
}

// Unless something has come that is not looked at. From now on others may go on with the step.
bool DynamicInstance::Park() {
  {
    const std::lock_guard lock(inbox_mutex_);
    if (!inbox_.empty() || !arrived_.empty()) return false;
    parked_ = true;
  }
  unpark_.Begin(step_->cancellation, [this](const Status&) {
    std::unique_lock lock(inbox_mutex_);
    HasCome(&lock);
  });
  return true;
}

// Until something has come, or the step is cancelled. One that is cancelled already waits so long as kernels have
// patience for.
void DynamicInstance::AwaitInbox() {
  const auto has_come = [this] { return !inbox_.empty() || !arrived_.empty(); };
  if (step_->cancellation->cancelled()) {
    std::unique_lock lock(inbox_mutex_);
    const std::chrono::seconds patience = Patience();
    if (patience.count() == 0) inbox_wake_.wait(lock, has_come);
    else if (!inbox_wake_.wait_for(lock, patience, has_come)) abandoned_ = true;
    return;
  }
  bool cancelled = false;
  const Subscription subscription(step_->cancellation, [&](const Status&) {
    std::lock_guard lock(inbox_mutex_);
    cancelled = true;
    inbox_wake_.notify_one();
  });
  std::unique_lock lock(inbox_mutex_);
  inbox_wake_.wait(lock, [&] { return cancelled || has_come(); });
}

// How long a step that is cancelled waits for what runs elsewhere: a thread of ours does come back, if the kernel's
// work is not endless. 0: for ever, since it is receives alone, which end when their rendezvous does.
std::chrono::seconds DynamicInstance::Patience() const {
  constexpr std::chrono::seconds kForDone(5), kForThreads(30);
  std::chrono::seconds patience(0);
  for (const auto& iteration : iterations_)
    for (size_t i = 0; i < iteration->info->kernels.size(); ++i)
      if (iteration->calls[i].elsewhere)
        patience = std::max(patience, iteration->calls[i].number == nullptr ? kForThreads : kForDone);
  return patience;
}

// What runs still may use all that the step has, whenever it ends: nothing of it is used or freed any more.
void DynamicInstance::Abandon() {
  std::string who;
  const auto note = [&](const Call& call) {
    who += StrCat(who.empty() ? "" : "; ", call.node->Describe(), ": ", DescribePlugin(*call.plugin), ": its ",
                  call.function, "() has not ", call.number != nullptr ? "called done" : "returned");
  };
  for (const auto& iteration : iterations_)
    for (size_t i = 0; i < iteration->info->kernels.size(); ++i) {
      const Call& call = iteration->calls[i];
      if (!call.elsewhere) continue;
      if (call.number != nullptr) AsyncCalls::The().GiveUp(call.number);
      (void)Guarded([&] { note(call); });  // without memory for a name it goes without
    }
  for (const auto& slot : root_iteration_->slots)
    if (slot.view.buffer != nullptr) Retain(slot.view.buffer);
  error_ = std::move(error_).Annotate(who);
  Log(TENON_LOG_ERROR, Status::Of(Code::kInternal, who,
                                  " since the step was ended; what the step has is kept for it until the process ends")
                           .message());
}

void DynamicInstance::TakeInbox(bool wait) {
  if (wait) AwaitInbox();
  // One after the other: what is thrown on the way leaves the others where they are.
  const auto take = [this](auto& from) {
    std::lock_guard lock(inbox_mutex_);
    return from.Take();
  };
  while (Receipt* receipt = take(arrived_)) Conclude(receipt);
  while (Call* call = take(inbox_)) {
    --outstanding_;
    call->elsewhere = false;
    if (std::exchange(call->computes, false)) --computing_;
    if (call->workspace != nullptr) Release(std::exchange(call->workspace, nullptr));
    if (call->end_ns != 0)
      step_->trace->Add(call->node->name, call->node->op->name, call->begin_ns, std::exchange(call->end_ns, 0));
    Conclude(*call->info, call, std::move(call->status));
  }
}

}  // namespace tenon::exec
