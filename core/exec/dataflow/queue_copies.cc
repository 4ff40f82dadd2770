// SPDX-License-Identifier: Apache-2.0
#include "core/exec/dataflow/queue_copies.h"

#include <cstring>

#include "core/exec/device/environment.h"
#include "core/exec/device/transfer.h"

namespace tenon::exec::dataflow {

Status QueueCopies::Begin(Step* step) {
  TENON_RETURN_IF_ERROR(work_.Begin(step));
  (void)work_.TakeRenewed();  // frames take their timeline at every run
  for (const SessionDevice& device : plan_.plan().env().devices)
    if (device.queued()) TENON_RETURN_IF_ERROR(work_.Use(device.first_queue));
  return Status::Ok();
}

Status QueueCopies::Copy(const NodeInfo& info, const Slot& source, Slot* target) {
  const Environment& env = plan_.plan().env();
  const int32_t memory = plan_.plan().DeviceOf(info.id), from = plan_.plan().TransferFrom(info.id);
  const tenon_tensor_view& view = source.view;
  TENON_ASSIGN_OR_RETURN(target->view, NewCopyTarget(env, view, memory));
  target->shape_id = source.shape_id;
  Status status =
      Submit(info, view, CopyArgs(env, DataOf(view), from, DataOf(target->view), memory, view.byte_size));
  if (!status.ok()) work_.Hold(target->view.buffer);  // a copy may still write to it
  return status;
}

Status QueueCopies::Submit(const NodeInfo& info, const tenon_tensor_view& view, tenon_copy_args args) {
  const Plan& plan = plan_.plan();
  const int32_t memory = plan.DeviceOf(info.id), from = plan.TransferFrom(info.id);
  const SessionDevice& to = plan.env().devices[memory];
  const SessionDevice& worker = plan.env().devices[from == 0 ? memory : from];
  const std::string& name = info.node->name;
  if (from == 0) {
    TENON_ASSIGN_OR_RETURN(args.source, KeepForCopy(view, plan.FeedOf(info.node->inputs[0]) >= 0));
    return work_.Copy(worker.first_queue, args, {}, name, nullptr);
  }
  if (from == memory) return work_.Copy(worker.first_queue, args, {}, name, nullptr);
  tenon_timeline_point done{};
  if (memory == 0) {
    TENON_RETURN_IF_ERROR(work_.Copy(worker.first_queue, args, {}, name, &done));
    return work_.HostWait(done);
  }
  // Queues of different drivers know nothing of each other: the host waits for both.
  if (worker.device->driver != to.device->driver) {
    TENON_ASSIGN_OR_RETURN(done, work_.Signal(worker.first_queue, name));
    TENON_RETURN_IF_ERROR(work_.HostWait(done));
    TENON_RETURN_IF_ERROR(work_.Copy(to.first_queue, args, {}, name, &done));
    return work_.HostWait(done);
  }
  // The memory was the target's; its earlier users there come first.
  TENON_ASSIGN_OR_RETURN(const tenon_timeline_point free, work_.Signal(to.first_queue, name));
  TENON_RETURN_IF_ERROR(work_.Copy(worker.first_queue, args, {&free, 1}, name, &done));
  return work_.Wait(to.first_queue, {&done, 1});
}

Result<const void*> QueueCopies::KeepForCopy(const tenon_tensor_view& view, bool fed) {
  constexpr uint64_t kMostHeld = uint64_t{256} << 20;
  if (work_.held_bytes() > kMostHeld) TENON_RETURN_IF_ERROR(work_.CatchUp());
  if (fed) return DataOf(view);
  if (view.buffer != nullptr) {
    Retain(view.buffer);
    work_.Hold(view.buffer);
    return DataOf(view);
  }
  TENON_ASSIGN_OR_RETURN(Buffer * kept, plan_.plan().env().pool->Allocate(view.byte_size, {nullptr, 0, 0}));
  if (view.byte_size > 0) std::memcpy(kept->data, DataOf(view), view.byte_size);
  work_.Hold(kept);
  return kept->data;
}

}  // namespace tenon::exec::dataflow
