// SPDX-License-Identifier: Apache-2.0
#include "core/exec/dataflow/dynamic_instance.h"

#include <algorithm>
#include <cstring>

#include "core/base/flush_denormals.h"
#include "core/base/log.h"
#include "core/exec/device/environment.h"
#include "core/exec/device/step.h"
#include "core/exec/device/transfer.h"
#include "core/exec/exchange/values.h"
#include "core/exec/threads/host_threads.h"
#include "core/graph/graph.h"
#include "core/graph/op_def.h"
#include "core/trace/trace.h"

namespace tenon::exec {
namespace {

RendezvousKey KeyOf(const DynamicPlan::NodeInfo& info, const dataflow::Iteration* iteration) {
  RendezvousKey key{info.channel.number(), iteration->info->depth, {}};
  for (int32_t depth = key.depth; depth-- > 0; iteration = iteration->frame->parent)
    key.turns[depth] = iteration->number;
  return key;
}

}  // namespace

Result<std::unique_ptr<DynamicInstance>> DynamicInstance::Create(const DynamicPlan* plan) {
  return std::unique_ptr<DynamicInstance>(new DynamicInstance(plan));
}

DynamicInstance::DynamicInstance(const DynamicPlan* plan)
    : plan_(*plan),
      work_(&plan->plan().env()),
      ready_(plan->plan().options().schedule_seed),
      fetched_(plan),
      deliveries_(plan, &ready_, &fetched_),
      elsewhere_(plan),
      frames_(plan, &work_, &elsewhere_),
      loops_(plan, &frames_, &deliveries_, &error_),
      kernels_(plan->plan().env().pool),
      copies_(plan, &work_) {}

// ---- The step ----

Status DynamicInstance::Run(Step* step, const tenon_tensor_view* const* feeds) {
  step_ = step;
  error_.Begin(step);
  loops_.Begin();
  elsewhere_.Begin(step);
  kernels_.Begin(step);
  return Drive([&] { Begin(feeds); });
}

Status DynamicInstance::GoOn() {
  elsewhere_.Unpark();
  return Drive([] {});
}

template <typename First>
Status DynamicInstance::Drive(First first) {
  const FlushDenormals flush;
  stands_still_ = false;
  const auto guarded = [this](auto part) {
    Status thrown = Guarded(part);
    if (thrown.ok()) return true;
    error_.Fail(std::move(thrown));
    return false;
  };
  guarded(first);
  // What is thrown ends the step, but not before what runs elsewhere has come back.
  while (!guarded([&] { Loop(); })) continue;
  if (stands_still_) return Status::Ok();
  Status status = error_.Take();
  if (work_.begun()) status = work_.Complete(std::move(status));
  return status.ok() ? fetched_.Complete(step_, &work_) : status;
}

void DynamicInstance::Begin(const tenon_tensor_view* const* feeds) {
  const DynamicPlan::FrameInfo& info = plan_.frames()[graph::kStep];
  Iteration* const root = frames_.root_iteration();
  std::copy(info.initial.begin(), info.initial.end(), root->states.begin());
  for (size_t i = 0; i < plan_.plan().feeds().size(); ++i) {
    // Feeds have the first slots.
    tenon_tensor_view& view = root->slots[i].view;
    view = *feeds[i];
    view.flags = FeedFlags(*feeds[i], plan_.plan().MemoryOf(plan_.plan().feeds()[i]) == 0);
  }
  fetched_.Begin(*root);
  for (const DynamicPlan::Target& target : plan_.fed_merges()) deliveries_.Deliver(target, root, false);
  for (DynamicPlan::LocalId source : info.sources) ready_.Push(source, root, false);
  if (!plan_.plan().uses_queues()) return;
  if (Status status = copies_.Begin(step_); !status.ok()) error_.Fail(std::move(status));
}

void DynamicInstance::Finish() {
  fetched_.Release(abandoned());
  if (abandoned()) return;
  if (error_.failed()) frames_.RecycleAll();
  else frames_.Recycle(frames_.root_iteration());
  ready_.Forget();
  step_ = nullptr;
}

void DynamicInstance::Loop() {
  for (;;) {
    if (step_->cancellation->cancelled() && error_.none()) error_.Fail(step_->cancellation->reason());
    if (!error_.none()) {
      ready_.Forget();
      if (elsewhere_.outstanding() == 0) return;
      if (elsewhere_.abandoned()) return Abandon();
    }
    const bool idle = ready_.empty();
    if (idle && step_->enough && error_.none() && elsewhere_.MayStandStill()) {
      stands_still_ = true;
      return;
    }
    if (idle && elsewhere_.outstanding() > 0 && step_->resumer != nullptr && error_.none() && elsewhere_.Park()) {
      stands_still_ = true;
      return;
    }
    if (elsewhere_.outstanding() > 0) TakeInbox(idle);
    else if (idle) return;
    if (!error_.none()) continue;
    if (const dataflow::Ready ready = ready_.Take(); ready.iteration != nullptr) Process(ready);
  }
}

void DynamicInstance::TakeInbox(bool wait) {
  if (wait) elsewhere_.Await(frames_);
  while (auto arrival = elsewhere_.TakeArrival()) Conclude(*std::move(arrival));
  while (Call* call = elsewhere_.TakeCall()) Conclude(call, std::move(call->status));
}

// What runs still may use all that the step has, whenever it ends: nothing of it is used or freed any more.
void DynamicInstance::Abandon() {
  const std::string who = elsewhere_.GiveUp(frames_);
  for (const auto& slot : frames_.root_iteration()->slots)
    if (slot.view.buffer != nullptr) Retain(slot.view.buffer);
  error_.Annotate(who);
  Log(TENON_LOG_ERROR, Status::Of(Code::kInternal, who,
                                  " since the step was ended; what the step has is kept for it until the process ends")
                           .message());
}

// ---- Nodes ----

void DynamicInstance::Process(const dataflow::Ready& ready) {
  Iteration* iteration = ready.iteration;
  const NodeInfo& info = iteration->info->nodes[ready.node];
  if (ready.dead && !info.runs_when_dead) return ProcessDead(info, iteration);
  if (info.host_waits && !ready.now && ready_.has_active()) return ready_.PutOff(ready);
  switch (info.kind) {
    case Kind::kKernel: return ProcessKernel(info, iteration);
    case Kind::kForward: ProcessForward(info, iteration); break;
    case Kind::kTransfer: ProcessTransfer(info, iteration); break;
    case Kind::kSend: ProcessSend(info, iteration, false); break;
    case Kind::kReceive: return elsewhere_.Receive(info, iteration, KeyOf(info, iteration));
    case Kind::kSwitch: ProcessSwitch(info, iteration); break;
    case Kind::kMerge: return ProcessMerge(info, iteration);
    case Kind::kEnter:
      if (ReadReferences(info, iteration)) loops_.Enter(info, iteration, false);
      break;
    case Kind::kExit:
      if (ReadReferences(info, iteration)) loops_.Exit(info, iteration);
      break;
    case Kind::kNextIteration:
      if (ReadReferences(info, iteration) && !loops_.Next(info, iteration)) return loops_.Leave(iteration);
      break;
    case Kind::kConstant:
      deliveries_.Publish(info, iteration);
      deliveries_.WakeAll(info, iteration, false);
      break;
    case Kind::kTrigger: deliveries_.WakeAll(info, iteration, false); break;
    case Kind::kUnfed: ProcessUnfed(info, iteration); break;
  }
  Finished(info, iteration);
}

void DynamicInstance::ProcessDead(const NodeInfo& info, Iteration* iteration) {
  switch (info.kind) {
    case Kind::kEnter: loops_.Enter(info, iteration, true); break;
    case Kind::kExit: dataflow::Loops::ExitDead(info, iteration); break;
    case Kind::kSend: ProcessSend(info, iteration, true); break;
    case Kind::kNextIteration: break;
    default: deliveries_.WakeAll(info, iteration, true);
  }
  if (info.kind == Kind::kMerge) return loops_.Leave(iteration);
  Finished(info, iteration);
}

void DynamicInstance::ProcessForward(const NodeInfo& info, Iteration* iteration) {
  if (!ReadReferences(info, iteration)) return;
  for (int32_t k = 0; k < info.output_count; ++k)
    iteration->Forward(iteration->Input(info, k), info.first_output + k);
  deliveries_.Publish(info, iteration);
  deliveries_.WakeAll(info, iteration, false);
}

void DynamicInstance::ProcessSwitch(const NodeInfo& info, Iteration* iteration) {
  if (!ReadReferences(info, iteration)) return;
  const tenon_tensor_view& predicate = iteration->Input(info, 1).view;
  if (predicate.dl.ndim != 0)
    return error_.Fail(InvalidArgument(StrCat(info.node->Describe(), ": its predicate must be a scalar, found the ",
                                              "shape ", ShapeOf(predicate).ToString())));
  const int32_t taken = *static_cast<const uint8_t*>(DataOf(predicate)) != 0 ? 1 : 0;
  iteration->Forward(iteration->Input(info, 0), info.first_output + taken);
  if (Status status = fetched_.CheckTaken(info, info.first_output + taken); !status.ok())
    return error_.Fail(std::move(status));
  deliveries_.Publish(info, iteration);
  deliveries_.Wake(info, 0, 1, iteration, taken == 1);
  deliveries_.Wake(info, 1, 2, iteration, taken == 0);
  deliveries_.Wake(info, 2, 3, iteration, false);
}

void DynamicInstance::ProcessMerge(const NodeInfo& info, Iteration* iteration) {
  const int32_t live = iteration->states[info.local].live;
  if (!ReadReferences(info, iteration)) return loops_.Leave(iteration);
  dataflow::Slot& value = iteration->Input(info, live);
  iteration->Forward(value, info.first_output);
  if (info.output_count > 1) {
    dataflow::Slot& which = iteration->slots[info.first_output + 1];
    auto memory = iteration->MemoryOf(&which, sizeof live);
    if (memory.ok()) {
      std::memcpy(*memory, &live, sizeof live);
      which.view = MakeView(TENON_DT_INT32, {nullptr, 0, 0}, *memory, sizeof live, nullptr);
      which.depth = iteration->info->depth;
      which.shape_id = 0;
    } else {
      error_.Fail(Status(memory.status()).Annotate(info.node->Describe()));
    }
  }
  deliveries_.Publish(info, iteration);
  deliveries_.WakeAll(info, iteration, false);
  iteration->Use(&value);
  loops_.Leave(iteration);
}

void DynamicInstance::ProcessTransfer(const NodeInfo& info, Iteration* iteration) {
  if (!ReadReferences(info, iteration)) return;
  dataflow::Slot& target = iteration->slots[info.first_output];
  if (Status status = copies_.Copy(info, iteration->Input(info, 0), &target); !status.ok())
    return error_.Fail(std::move(status).Annotate(info.node->Describe()));
  target.made_for = nullptr;
  target.depth = iteration->info->depth;
  iteration->Own(info.first_output);
  deliveries_.Publish(info, iteration);
  deliveries_.WakeAll(info, iteration, false);
}

void DynamicInstance::ProcessUnfed(const NodeInfo& info, Iteration* iteration) {
  for (int32_t k = 0; k < info.output_count; ++k)
    if (plan_.plan().FeedOf({info.id, k}) < 0)
      error_.Fail(InvalidArgument(StrCat(info.node->Describe(), " must be fed with a value of type ",
                                         TypeName(info.node->output_types[k]))));
  deliveries_.WakeAll(info, iteration, false);
}

void DynamicInstance::ProcessSend(const NodeInfo& info, Iteration* iteration, bool dead) {
  Rendezvous* rendezvous = step_->rendezvous;
  const auto send = [&]() -> Status {
    if (dead) {
      // Where nobody expects a dead value, nobody waits: the loop has ended there too.
      return plan_.plan().MayBeDead(info.channel) ? rendezvous->Send(KeyOf(info, iteration), Message()) : Status::Ok();
    }
    if (info.follows_queues) TENON_RETURN_IF_ERROR(work_.CatchUp());
    const uint64_t begin = step_->trace == nullptr ? 0 : trace::Trace::Now();
    const tenon_tensor_view& value = iteration->Input(info, 0).view;
    TENON_RETURN_IF_ERROR(SendValue(rendezvous, KeyOf(info, iteration), value, plan_.plan().precision()));
    if (begin != 0)
      step_->trace->Add(info.node->name, info.node->op->name, begin, trace::Trace::Now(),
                        DescribeTransfer(*info.node, &value));
    return Status::Ok();
  };
  if (!dead && !ReadReferences(info, iteration)) return;
  if (Status status = send(); !status.ok()) return error_.Fail(std::move(status).Annotate(info.node->Describe()));
  deliveries_.Emit(info, iteration, dead);
}

void DynamicInstance::Conclude(dataflow::Elsewhere::Arrival arrival) {
  const NodeInfo& info = *arrival.info;
  Iteration* const iteration = arrival.iteration;
  Result<Message> message = std::move(arrival.message);
  // The call that began it was traced, maybe, and this one is not.
  if (arrival.begin_ns != 0 && step_->trace != nullptr)
    step_->trace->Add(info.node->name, info.node->op->name, arrival.begin_ns, trace::Trace::Now(),
                      DescribeTransfer(*info.node, message.ok() && !message->dead() ? &message->view() : nullptr));
  if (message.ok()) message = Unpacked(*std::move(message), info.node->output_types[0], step_->rendezvous->pool());
  if (!message.ok()) {
    error_.Fail(std::move(message).status().Annotate(info.node->Describe()));
  } else if (error_.none()) {
    if (!message->dead()) {
      dataflow::Slot& slot = iteration->slots[info.first_output];
      slot.view = message->Take();
      slot.shape_id = 0;
      slot.depth = iteration->info->depth;
    }
    deliveries_.Emit(info, iteration, message->dead());
  }
  Finished(info, iteration);
}

// ---- Kernels ----

void DynamicInstance::ProcessKernel(const NodeInfo& info, Iteration* iteration) {
  Call& call = iteration->calls[info.call];
  if (info.dereference_count != 0 && !ReadReferences(info, iteration)) return Finished(info, iteration);
  if (Status status = kernels_.Prepare(&call); !status.ok()) {
    error_.Fail(std::move(status));
    return Finished(info, iteration);
  }
  call.step = step_;
  if (info.follows_queues) {
    Status status = call.place.device == nullptr ? work_.CatchUp() : work_.Follow(call.place.queue);
    if (!status.ok()) return Conclude(&call, std::move(status));
  }
  const bool timed = call.place.device == nullptr && dataflow::KernelCalls::MayLeave(call);
  if (timed && RunsElsewhere(call)) return elsewhere_.Start(&call);
  Conclude(&call, kernels_.Run(&call, timed));
}

bool DynamicInstance::RunsElsewhere(const Call& call) const {
  const tenon_kernel_registration& kernel = call.last->kernel->registration();
  if ((kernel.traits & TENON_KERNEL_ASYNC) != 0 && kernel.run_async != nullptr) return true;
  if ((kernel.traits & TENON_KERNEL_BLOCKING) != 0) return true;
  // One goes where there is other work for this thread, and to no more threads than a step has, each of which may be in
  // a branch of its own, with its values. What a schedule's seed decides no clock does.
  if (!ready_.has_active() || elsewhere_.computing() + 1 >= step_->env->threads->threads()) return false;
  const PreparedNode& prepared = *call.last;
  const uint64_t took = prepared.took_ns.load(std::memory_order_relaxed);
  if ((kernel.traits & TENON_KERNEL_EXPENSIVE) != 0) return ready_.shuffled() || took == 0 || took >= kWorthAThreadNs;
  return took != 0 && !ready_.shuffled() && !prepared.shares.load(std::memory_order_relaxed);
}

void DynamicInstance::Conclude(Call* call, Status status) {
  const NodeInfo& info = *call->info;
  Iteration* const iteration = call->iteration;
  Status taken = kernels_.TakeOutputs(call, status.ok());
  if (status.ok()) status = std::move(taken);
  if (!status.ok()) {
    error_.Fail(std::move(status));
  } else if (error_.none()) {
    deliveries_.Publish(info, iteration);
    deliveries_.WakeAll(info, iteration, false);
  }
  Finished(info, iteration);
}

bool DynamicInstance::ReadReferences(const NodeInfo& info, Iteration* iteration) {
  for (int32_t i = 0; i < info.dereference_count; ++i) {
    const auto& dereference = iteration->info->dereferences[info.first_dereference + i];
    if (info.kind == Kind::kMerge && dereference.input != iteration->states[info.local].live) continue;
    if (Status status = ReadReference(info, dereference, iteration); !status.ok()) {
      error_.Fail(std::move(status));
      return false;
    }
  }
  return true;
}

Status DynamicInstance::ReadReference(const NodeInfo& info, const DynamicPlan::Dereference& dereference,
                                      Iteration* iteration) {
  dataflow::Slot& to = iteration->slots[dereference.to];
  Resource* resource = *static_cast<Resource**>(DataOf(iteration->slots[dereference.from].view));
  const SessionDevice* owner = dereference.memory == 0 ? nullptr : &plan_.plan().env().devices[dereference.memory];
  Status status = Dereference(resource, dereference.dtype, owner == nullptr ? nullptr : owner->device, &work_,
                              owner == nullptr ? QueueId() : owner->first_queue, step_->cancellation, &to.view);
  if (!status.ok()) return std::move(status).Annotate(StrCat(info.node->Describe(), ", input ", dereference.input));
  to.shape_id = 0;
  to.depth = iteration->info->depth;
  iteration->Own(&to, 1);
  return Status::Ok();
}

}  // namespace tenon::exec
