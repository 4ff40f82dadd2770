// SPDX-License-Identifier: Apache-2.0
// Devices with queues: all of a step's work goes to their main queues, in the order of the host's calls.
#include <cstring>

#include "core/exec/dataflow/dynamic_instance.h"
#include "core/exec/device/environment.h"
#include "core/exec/device/transfer.h"

namespace tenon::exec {

Status DynamicInstance::BeginQueues() {
  TENON_RETURN_IF_ERROR(work_.Begin(step_));
  (void)work_.TakeRenewed();  // frames take their timeline at every run
  for (const SessionDevice& device : plan_->plan().env().devices)
    if (device.queued()) TENON_RETURN_IF_ERROR(work_.Use(device.first_queue));
  return Status::Ok();
}

// All on the main queue, in the order of the host's calls: so memory may go back to the pool as soon as its last user
// has been submitted.
Status DynamicInstance::RunQueued(Call* call) {
  SetPlace(call->place, *call->node, &call->frame);
  Buffer* workspace = nullptr;
  if (call->last->workspace_bytes > 0) {
    TENON_ASSIGN_OR_RETURN(workspace, call->place.device->pool->Allocate(call->last->workspace_bytes, {nullptr, 0, 0}));
    call->frame.workspace = workspace->data;
  }
  Status status = RunPrepared(*call->last, &call->frame);
  if (workspace != nullptr) Release(workspace);
  return status;
}

void DynamicInstance::ProcessTransfer(const NodeInfo& info, Iteration* iteration) {
  const Plan& plan = plan_->plan();
  Slot& target = iteration->slots[info.first_output];
  Status status = ReadReferences(info, iteration);
  const bool fed = plan.FeedOf(info.node->inputs[0]) >= 0;
  if (status.ok())
    status =
        TransferTo(plan.DeviceOf(info.id), plan.TransferFrom(info.id), Input(info, 0, iteration), fed, info, &target);
  if (!status.ok()) return Fail(std::move(status).Annotate(info.node->Describe()));
  target.made_for = nullptr;
  target.depth = iteration->info->depth;
  Own(iteration, &target, iteration->info->slots[info.first_output].uses);
  Publish(info, iteration);
  WakeAll(info, iteration, false);
}

// A host value that stays as it is while its copy waits in a queue.
Result<const void*> DynamicInstance::KeepForCopy(const tenon_tensor_view& view, bool fed) {
  constexpr uint64_t kMostHeld = uint64_t{256} << 20;
  if (work_.held_bytes() > kMostHeld) TENON_RETURN_IF_ERROR(work_.CatchUp());
  if (fed) return DataOf(view);
  if (view.buffer != nullptr) {
    Retain(view.buffer);
    work_.Hold(view.buffer);
    return DataOf(view);
  }
  TENON_ASSIGN_OR_RETURN(Buffer * kept, pool_->Allocate(view.byte_size, {nullptr, 0, 0}));
  if (view.byte_size > 0) std::memcpy(kept->data, DataOf(view), view.byte_size);
  work_.Hold(kept);
  return kept->data;
}

Status DynamicInstance::TransferTo(int32_t memory, int32_t from, const Slot& source, bool fed, const NodeInfo& info,
                                   Slot* target) {
  const Environment& env = plan_->plan().env();
  const SessionDevice& to = env.devices[memory];
  const SessionDevice& worker = env.devices[from == 0 ? memory : from];
  const tenon_tensor_view& view = source.view;
  TENON_ASSIGN_OR_RETURN(target->view, NewCopyTarget(env, view, memory));
  target->shape_id = source.shape_id;
  tenon_copy_args args = CopyArgs(env, DataOf(view), from, DataOf(target->view), memory, view.byte_size);
  const auto copy = [&]() -> Status {
    if (from == 0) {
      TENON_ASSIGN_OR_RETURN(args.source, KeepForCopy(view, fed));
      return work_.Copy(worker.first_queue, args, {}, info.node->name, nullptr);
    }
    if (from == memory) return work_.Copy(worker.first_queue, args, {}, info.node->name, nullptr);
    tenon_timeline_point done{};
    if (memory == 0) {
      TENON_RETURN_IF_ERROR(work_.Copy(worker.first_queue, args, {}, info.node->name, &done));
      return work_.HostWait(done);
    }
    if (worker.device->driver !=
        to.device->driver) {  // queues of different drivers know nothing of each other: the host waits for both
      TENON_ASSIGN_OR_RETURN(done, work_.Signal(worker.first_queue, info.node->name));
      TENON_RETURN_IF_ERROR(work_.HostWait(done));
      TENON_RETURN_IF_ERROR(work_.Copy(to.first_queue, args, {}, info.node->name, &done));
      return work_.HostWait(done);
    }
    // The memory was the target's; its earlier users there come first.
    TENON_ASSIGN_OR_RETURN(const tenon_timeline_point free, work_.Signal(to.first_queue, info.node->name));
    TENON_RETURN_IF_ERROR(work_.Copy(worker.first_queue, args, {&free, 1}, info.node->name, &done));
    return work_.Wait(to.first_queue, {&done, 1});
  };
  Status status = copy();
  if (!status.ok()) work_.Hold(target->view.buffer);  // a copy may still write to it
  return status;
}

}  // namespace tenon::exec
