// SPDX-License-Identifier: Apache-2.0
#include "core/exec/program/operations.h"

#include <algorithm>
#include <cstring>

#include "core/exec/device/environment.h"
#include "core/exec/device/step.h"
#include "core/exec/device/transfer.h"
#include "core/exec/exchange/values.h"
#include "core/exec/kernel/kernel_instance.h"
#include "core/exec/kernel/run_node.h"

namespace tenon::exec::program {
namespace {

// As CallRun, of a frame that the block's loop has put on the thread's trail already.
tenon_status* RunOnTrail(const KernelInstance& kernel, const tenon_prepared* prepared, tenon_frame* frame) {
  try {
    return kernel.registration().run(kernel.state(), prepared, frame);
  } catch (...) {
    EndLostUpdates(*frame);
    return Thrown(kernel.plugin(), "run").release();
  }
}

// What the kernel itself made must have the shape that was planned.
tenon_status* CheckOutputs(Context* context) {
  for (size_t k = 0; k < context->outputs.size(); ++k) {
    const Slot& slot = context->machine->code.at(context->operation->outputs[k]);
    const tenon_tensor_view& view = *context->outputs[k];
    if (Status status = CheckCells(*context, k, view); !status.ok()) return status.release();
    if (slot.home != Home::kBuffer) continue;
    if (view.buffer == nullptr) return NotSet(*context, k).release();
    const std::vector<int64_t>& dims = slot.shape.dims();
    if (slot.shape.fully_known() &&
        (static_cast<size_t>(view.dl.ndim) != dims.size() ||
         (!dims.empty() && std::memcmp(view.dl.shape, dims.data(), dims.size() * sizeof(int64_t)) != 0)))
      return FailedPrecondition(StrCat(context->node->Describe(), ": output ", k, " was planned as ",
                                       slot.shape.ToString(), ", found ", ShapeOf(view).ToString()))
          .release();
  }
  return nullptr;
}

tenon_status* RunCheck(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  if (!context->step->cancellation->cancelled()) return nullptr;
  return context->step->cancellation->reason().Annotate(StrCat("before ", context->node->Describe())).release();
}

tenon_status* RunCompiled(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  const CompiledRegion& region = *ContextOf(frame)->operation->region;
  tenon_status* bad = region.Run(frame);
  if (ContextOf(frame)->holds()) ReleasePins(ContextOf(frame));
  return bad == nullptr ? nullptr : Status(bad).Annotate(region.label()).release();
}

tenon_status* RunGuarded(tenon_kernel*, const tenon_prepared* prepared, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  const KernelInstance& instance = *context->operation->prepared->kernel;
  tenon_status* bad = RunOnTrail(instance, prepared, frame);
  if (context->holds()) ReleasePins(context);
  if (bad != nullptr) return Status(bad).Annotate(context->node->Describe()).release();
  return CheckOutputs(context);
}

tenon_status* RunQueued(tenon_kernel*, const tenon_prepared* prepared, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  Machine& machine = *context->machine;
  const Operation& operation = *context->operation;
  if (Status status = machine.queues.BeforeWork(context); !status.ok())
    return std::move(status).Annotate(context->node->Describe()).release();
  tenon_status* bad = operation.region != nullptr ? operation.region->Run(frame)
                                                  : RunOnTrail(*operation.prepared->kernel, prepared, frame);
  if (context->holds()) ReleasePins(context);
  if (bad != nullptr) return Status(bad).Annotate(context->node->Describe()).release();
  if (operation.guarded)
    if (tenon_status* wrong = CheckOutputs(context)) return wrong;
  Status status = machine.queues.AfterWork(context);
  return status.ok() ? nullptr : std::move(status).Annotate(context->node->Describe()).release();
}

tenon_status* RunTransfer(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  Machine& machine = *context->machine;
  const Operation& operation = *context->operation;
  const Environment& env = machine.program.plan().env();
  const Slot& to = machine.code.at(operation.outputs[0]);
  const int32_t from_memory = machine.code.at(operation.inputs[0]).memory;
  const tenon_tensor_view& source = *context->inputs[0];
  tenon_tensor_view& target = *context->outputs[0];
  const auto transfer = [&]() -> Status {
    if (to.home == Home::kBuffer) {
      ReleaseOutput(&target);
      TENON_ASSIGN_OR_RETURN(target, NewCopyTarget(env, source, to.memory));
    }
    return machine.queues.work().Copy(
        operation.queue, CopyArgs(env, DataOf(source), from_memory, DataOf(target), to.memory, source.byte_size),
        machine.queues.PointsOf(context), context->node->name, machine.queues.SignalOf(operation));
  };
  Status status = transfer();
  return status.ok() ? nullptr : std::move(status).Annotate(context->node->Describe()).release();
}

tenon_status* RunWait(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  for (const tenon_timeline_point& point : context->machine->queues.PointsOf(context))
    if (Status status = context->machine->queues.work().HostWait(point); !status.ok())
      return std::move(status).Annotate(StrCat("before ", context->node->Describe())).release();
  return nullptr;
}

tenon_status* RunDynamic(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  if (Status status = context->machine->queues.BeforeWork(context); !status.ok()) return status.release();
  const auto& runner = context->machine->program.plan().runner(context->operation->node);
  auto prepared = runner->Resolve(context->inputs, context->last);
  if (!prepared.ok()) return Status(prepared.status()).release();
  context->last = *prepared;
  for (tenon_tensor_view* output : context->outputs) ReleaseOutput(output);
  Status status =
      RunNode(context->step, context->place, *context->last, *context->node, context->inputs, context->outputs);
  if (status.ok() && context->operation->queue) status = context->machine->queues.AfterWork(context);
  return status.release();
}

tenon_status* RunRead(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  tenon_tensor_view* output = context->outputs[0];
  Resource* resource = *static_cast<Resource**>(DataOf(*context->inputs[0]));
  const Operation& operation = *context->operation;
  const Slot& to = context->machine->code.at(operation.outputs[0]);
  const Device* device = to.memory == 0 ? nullptr : context->step->env->devices[to.memory].device;
  Status status = context->machine->queues.BeforeWork(context);
  // Not before: its memory may be another's then.
  ReleaseOutput(output);
  if (status.ok())
    status = Dereference(resource, to.dtype, device, &context->machine->queues.work(), operation.queue,
                         context->step->cancellation, output);
  if (status.ok() && operation.queue) status = context->machine->queues.AfterWork(context);
  if (!status.ok()) return std::move(status).Annotate(context->node->Describe()).release();
  const Shape& planned = to.shape;
  if (planned.fully_known() && !(ShapeOf(*output) == planned))
    return FailedPrecondition(StrCat(context->node->Describe(), ": variable '", resource->name, "' has the shape ",
                                     ShapeOf(*output).ToString(), ", the graph says ", planned.ToString())).release();
  return nullptr;
}

tenon_status* RunView(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  context->outputs[0]->dl.data = DataOf(*context->inputs[0]);
  context->outputs[0]->buffer = context->inputs[0]->buffer;
  context->outputs[0]->flags = context->inputs[0]->flags;
  return nullptr;
}

tenon_status* RunRelease(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  ReleaseOutput(ContextOf(frame)->outputs[0]);
  return nullptr;
}

tenon_status* RunBranch(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  const BranchState& state = *context->branch;
  const bool taken = *static_cast<const uint8_t*>(DataOf(*context->inputs[0])) != 0;
  return taken == (state.plan->side != 0) ? context->machine->Execute(state.block) : nullptr;
}

tenon_status* RunSelect(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  const int side = *static_cast<const uint8_t*>(DataOf(*context->inputs[0])) != 0 ? 1 : 0;
  *context->outputs[0] = *context->inputs[1 + side];
  if (context->outputs.size() > 1)
    *static_cast<int32_t*>(DataOf(*context->outputs[1])) = context->operation->input_of_side[side];
  return nullptr;
}

tenon_status* RunLoop(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  Machine& machine = *context->machine;
  LoopState& state = *context->loop;
  const Loop& loop = *state.plan;
  // Once: a copy might change it, for all that the compiler knows.
  tenon_tensor_view* const views = machine.views.list().data();
  const auto view = [views](SlotId slot) -> tenon_tensor_view& { return views[slot.index()]; };
  const auto copy = [&](SlotId from, SlotId to) {
    const tenon_tensor_view& source = view(from);
    const tenon_tensor_view& target = view(to);
    // Small carried values are the common case; a fixed size lets the compiler leave memcpy's call out.
    if (target.byte_size == 4) std::memcpy(target.dl.data, DataOf(source), 4);
    else if (target.byte_size == 8) std::memcpy(target.dl.data, DataOf(source), 8);
    else std::memcpy(target.dl.data, DataOf(source), target.byte_size);
  };
  for (const Loop::Carried& carried : loop.carried)
    if (!carried.queued) copy(carried.initial, carried.current);
  const tenon_tensor_view& condition = view(loop.condition);
  Cancellation* cancellation = context->step->cancellation;
  for (state.turn = 0;; ++state.turn) {
    if (cancellation->cancelled())
      return cancellation->reason().Annotate(StrCat("in the loop of ", context->node->Describe())).release();
    if (tenon_status* bad = machine.Execute(state.condition)) return bad;
    if (*static_cast<const uint8_t*>(DataOf(condition)) == 0) return nullptr;
    if (tenon_status* bad = machine.Execute(state.body)) return bad;
    for (const Loop::Carried& carried : loop.carried)
      if (carried.through_temporary && !carried.queued) copy(carried.next, carried.temporary);
    for (const Loop::Carried& carried : loop.carried)
      if (!carried.queued) copy(carried.through_temporary ? carried.temporary : carried.next, carried.current);
  }
}

RendezvousKey KeyOf(const Machine& machine, const Operation& operation) {
  RendezvousKey key{machine.program.plan().ChannelOf(operation.node).number(), 0, {}};
  for (LoopId loop : operation.around) key = key.Within(machine.loops[loop]->turn);
  return key;
}

tenon_status* RunSend(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  const Plan& plan = context->machine->program.plan();
  tenon_tensor_view value = *context->inputs[0];
  if (context->sent != nullptr) {
    value.buffer = context->sent->buffer;
    value.flags |= TENON_VIEW_READ_ONLY;  // from here on
  }
  Status status =
      SendValue(context->step->rendezvous, KeyOf(*context->machine, *context->operation), value, plan.precision());
  return status.ok() ? nullptr : std::move(status).Annotate(context->node->Describe()).release();
}

tenon_status* RunReceive(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  tenon_tensor_view* output = context->outputs[0];
  ReleaseOutput(output);
  Result<Message> message = context->step->rendezvous->Await(KeyOf(*context->machine, *context->operation));
  if (!message.ok()) return std::move(message).status().Annotate(context->node->Describe()).release();
  if (message->dead())
    return Internal(StrCat(context->node->Describe(), " received a dead value, which was ruled out")).release();
  message = Unpacked(*std::move(message), context->node->output_types[0], context->step->rendezvous->pool());
  if (!message.ok()) return std::move(message).status().Annotate(context->node->Describe()).release();
  *output = message->Take();
  return CheckOutputs(context);
}

bool HasStrings(const graph::Node& node) {
  const std::vector<DType>& types = node.output_types;
  return std::find(types.begin(), types.end(), TENON_DT_STRING) != types.end();
}

}  // namespace

Instruction::Run RunOf(const Operation& operation, const graph::Node& node) {
  switch (operation.kind) {
    case Operation::Kind::kRun:
      // What readers of strings believe is looked at; other outputs cost nothing here.
      return HasStrings(node) ? &RunGuarded : operation.prepared->kernel->registration().run;
    case Operation::Kind::kCompiled: return &RunCompiled;
    case Operation::Kind::kGuarded: return &RunGuarded;
    case Operation::Kind::kQueued: return &RunQueued;
    case Operation::Kind::kTransfer: return &RunTransfer;
    case Operation::Kind::kWait: return &RunWait;
    case Operation::Kind::kDynamic: return &RunDynamic;
    case Operation::Kind::kRead: return &RunRead;
    case Operation::Kind::kView: return &RunView;
    case Operation::Kind::kRelease: return &RunRelease;
    case Operation::Kind::kLoop: return &RunLoop;
    case Operation::Kind::kBranch: return &RunBranch;
    case Operation::Kind::kSelect: return &RunSelect;
    case Operation::Kind::kCheck: return &RunCheck;
    case Operation::Kind::kSend: return &RunSend;
    case Operation::Kind::kReceive: return &RunReceive;
  }
  return nullptr;
}

bool NamesItself(const Instruction& instruction) {
  return instruction.run == &RunGuarded;
}

}  // namespace tenon::exec::program
