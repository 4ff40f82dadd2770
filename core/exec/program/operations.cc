// SPDX-License-Identifier: Apache-2.0
// What each kind of operation does in a step.
#include <cstring>

#include "core/exec/device/environment.h"
#include "core/exec/device/transfer.h"
#include "core/exec/kernel/kernel_instance.h"
#include "core/exec/kernel/run_node.h"
#include "core/exec/program/instance.h"

namespace tenon::exec {
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

}  // namespace

tenon_status* ProgramInstance::RunCheck(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  if (!context->step->cancellation->cancelled()) return nullptr;
  return context->step->cancellation->reason().Annotate(StrCat("before ", context->node->Describe())).release();
}

tenon_status* ProgramInstance::RunCompiled(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  const CompiledRegion& region = *ContextOf(frame)->operation->region;
  tenon_status* bad = region.Run(frame);
  if (ContextOf(frame)->holds()) ReleasePins(ContextOf(frame));
  return bad == nullptr ? nullptr : Status(bad).Annotate(region.label()).release();
}

tenon_status* ProgramInstance::RunGuarded(tenon_kernel*, const tenon_prepared* prepared, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  const KernelInstance& instance = *context->operation->prepared->kernel;
  tenon_status* bad = RunOnTrail(instance, prepared, frame);
  if (context->holds()) ReleasePins(context);
  if (bad != nullptr) return Status(bad).Annotate(context->node->Describe()).release();
  return CheckOutputs(context);
}

// What the kernel itself made must have the shape that was planned.
tenon_status* ProgramInstance::CheckOutputs(Context* context) {
  for (size_t k = 0; k < context->outputs.size(); ++k) {
    const Slot& slot = context->instance->code_.at(context->operation->outputs[k]);
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

tenon_status* ProgramInstance::RunQueued(tenon_kernel*, const tenon_prepared* prepared, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  ProgramInstance* self = context->instance;
  const Operation& operation = *context->operation;
  if (Status status = self->BeforeWork(context); !status.ok())
    return std::move(status).Annotate(context->node->Describe()).release();
  tenon_status* bad = operation.region != nullptr ? operation.region->Run(frame)
                                                  : RunOnTrail(*operation.prepared->kernel, prepared, frame);
  if (context->holds()) ReleasePins(context);
  if (bad != nullptr) return Status(bad).Annotate(context->node->Describe()).release();
  if (operation.guarded)
    if (tenon_status* wrong = CheckOutputs(context)) return wrong;
  Status status = self->AfterWork(context);
  return status.ok() ? nullptr : std::move(status).Annotate(context->node->Describe()).release();
}

tenon_status* ProgramInstance::RunTransfer(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  ProgramInstance* self = context->instance;
  const Operation& operation = *context->operation;
  const Environment& env = self->program_->plan().env();
  const Slot& to = self->code_.at(operation.outputs[0]);
  const int32_t from_memory = self->code_.at(operation.inputs[0]).memory;
  const tenon_tensor_view& source = *context->inputs[0];
  tenon_tensor_view& target = *context->outputs[0];
  const auto transfer = [&]() -> Status {
    if (to.home == Home::kBuffer) {
      ReleaseOutput(&target);
      TENON_ASSIGN_OR_RETURN(target, NewCopyTarget(env, source, to.memory));
    }
    return self->work_.Copy(
        operation.queue, CopyArgs(env, DataOf(source), from_memory, DataOf(target), to.memory, source.byte_size),
        self->PointsOf(context), context->node->name, !operation.signal ? nullptr : &self->points_[operation.signal]);
  };
  Status status = transfer();
  return status.ok() ? nullptr : std::move(status).Annotate(context->node->Describe()).release();
}

tenon_status* ProgramInstance::RunWait(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  for (const tenon_timeline_point& point : context->instance->PointsOf(context))
    if (Status status = context->instance->work_.HostWait(point); !status.ok())
      return std::move(status).Annotate(StrCat("before ", context->node->Describe())).release();
  return nullptr;
}

tenon_status* ProgramInstance::RunDynamic(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  if (Status status = context->instance->BeforeWork(context); !status.ok()) return status.release();
  const auto& runner = context->instance->program_->plan().runner(context->operation->node);
  auto prepared = runner->Resolve(context->inputs, context->last);
  if (!prepared.ok()) return Status(prepared.status()).release();
  context->last = *prepared;
  for (tenon_tensor_view* output : context->outputs) ReleaseOutput(output);
  Status status =
      RunNode(context->step, context->place, *context->last, *context->node, context->inputs, context->outputs);
  if (status.ok() && context->operation->queue) status = context->instance->AfterWork(context);
  return status.release();
}

tenon_status* ProgramInstance::RunRead(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  tenon_tensor_view* output = context->outputs[0];
  Resource* resource = *static_cast<Resource**>(DataOf(*context->inputs[0]));
  const Operation& operation = *context->operation;
  const Slot& to = context->instance->code_.at(operation.outputs[0]);
  const Device* device = to.memory == 0 ? nullptr : context->step->env->devices[to.memory].device;
  Status status = context->instance->BeforeWork(context);
  // Not before: its memory may be another's then.
  ReleaseOutput(output);
  if (status.ok())
    status = Dereference(resource, to.dtype, device, &context->instance->work_, operation.queue,
                         context->step->cancellation, output);
  if (status.ok() && operation.queue) status = context->instance->AfterWork(context);
  if (!status.ok()) return std::move(status).Annotate(context->node->Describe()).release();
  const Shape& planned = to.shape;
  if (planned.fully_known() && !(ShapeOf(*output) == planned))
    return FailedPrecondition(StrCat(context->node->Describe(), ": variable '", resource->name, "' has the shape ",
                                     ShapeOf(*output).ToString(), ", the graph says ", planned.ToString())).release();
  return nullptr;
}

tenon_status* ProgramInstance::RunView(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  context->outputs[0]->dl.data = DataOf(*context->inputs[0]);
  context->outputs[0]->buffer = context->inputs[0]->buffer;
  context->outputs[0]->flags = context->inputs[0]->flags;
  return nullptr;
}

tenon_status* ProgramInstance::RunRelease(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  ReleaseOutput(ContextOf(frame)->outputs[0]);
  return nullptr;
}

tenon_status* ProgramInstance::RunBranch(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  const BranchState& state = *context->branch;
  const bool taken = *static_cast<const uint8_t*>(DataOf(*context->inputs[0])) != 0;
  return taken == (state.plan->side != 0) ? context->instance->Execute(state.block) : nullptr;
}

tenon_status* ProgramInstance::RunSelect(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  const int side = *static_cast<const uint8_t*>(DataOf(*context->inputs[0])) != 0 ? 1 : 0;
  *context->outputs[0] = *context->inputs[1 + side];
  if (context->outputs.size() > 1)
    *static_cast<int32_t*>(DataOf(*context->outputs[1])) = context->operation->input_of_side[side];
  return nullptr;
}

tenon_status* ProgramInstance::RunLoop(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  ProgramInstance* self = context->instance;
  LoopState& state = *context->loop;
  const Loop& loop = *state.plan;
  tenon_tensor_view* const views =
      self->views_.list().data();  // once: a copy might change it, for all that the compiler knows
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
    if (tenon_status* bad = self->Execute(state.condition)) return bad;
    if (*static_cast<const uint8_t*>(DataOf(condition)) == 0) return nullptr;
    if (tenon_status* bad = self->Execute(state.body)) return bad;
    for (const Loop::Carried& carried : loop.carried)
      if (carried.through_temporary && !carried.queued) copy(carried.next, carried.temporary);
    for (const Loop::Carried& carried : loop.carried)
      if (!carried.queued) copy(carried.through_temporary ? carried.temporary : carried.next, carried.current);
  }
}

}  // namespace tenon::exec
