// SPDX-License-Identifier: Apache-2.0
#include "core/exec/dataflow/kernel_calls.h"

#include <algorithm>
#include <cstddef>

#include "core/base/clock.h"
#include "core/exec/device/environment.h"
#include "core/exec/device/step.h"
#include "core/exec/kernel/outputs.h"
#include "core/exec/threads/host_threads.h"

namespace tenon::exec::dataflow {
namespace {

// Results up to this many bytes live in their iteration's own memory.
constexpr uint64_t kSmallBytes = 1024;

}  // namespace

Status KernelCalls::Prepare(Call* call) {
  TENON_RETURN_IF_ERROR(Resolve(call));
  const NodeInfo& info = *call->info;
  const PreparedNode* prepared = call->last.get();
  for (int32_t k = 0; k < info.output_count; ++k)
    if (call->iteration->slots[info.first_output + k].made_for != prepared) TENON_RETURN_IF_ERROR(MakeOutput(call, k));
  return Status::Ok();
}

Status KernelCalls::Resolve(Call* call) {
  const NodeInfo& info = *call->info;
  const auto slot = [call](int32_t i) { return reinterpret_cast<const Slot*>(call->frame.inputs[i]); };
  static_assert(offsetof(Slot, view) == 0);
  bool same = call->last != nullptr;
  for (int32_t i = 0; i < info.input_count && same; ++i)
    same = call->seen[i] != 0 && call->seen[i] == slot(i)->shape_id;
  if (same) return Status::Ok();
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<const PreparedNode> prepared,
                         info.runner->Resolve({call->frame.inputs, static_cast<size_t>(info.input_count)}, call->last));
  if (prepared != call->last) {
    for (int32_t k = 0; k < info.output_count; ++k) call->iteration->slots[info.first_output + k].made_for = nullptr;
    call->last = std::move(prepared);
    call->frame.workspace_bytes = call->last->workspace_bytes;
  }
  // What depends on values is asked each time.
  const bool values = info.runner->value_dependent();
  for (int32_t i = 0; i < info.input_count; ++i) call->seen[i] = values ? 0 : slot(i)->shape_id;
  return Status::Ok();
}

Status KernelCalls::MakeOutput(Call* call, int32_t k) {
  const NodeInfo& info = *call->info;
  const PreparedNode& prepared = *call->last;
  Iteration* const iteration = call->iteration;
  const int32_t at = info.first_output + k;
  Slot& slot = iteration->slots[at];
  const DType dtype = info.node->output_types[k];
  slot.depth = iteration->info->depth;
  slot.shape_id = 0;
  if (prepared.kernel->dynamic_output(k) || (k == 0 && prepared.kernel->has(TENON_KERNEL_VIEW))) {
    slot.view = {};
    return Status::Ok();
  }
  if (!IsRef(dtype) && !prepared.outputs[k].shape.fully_known()) return NoShape(*info.node, k);
  const uint64_t bytes = IsRef(dtype) ? sizeof(Resource*) : prepared.output_bytes[k];
  const bool on_device = !call->place.host_output(k);
  if (bytes > kSmallBytes || on_device || !(IsPlain(dtype) || IsRef(dtype) || dtype == TENON_DT_RESOURCE)) {
    TENON_ASSIGN_OR_RETURN(slot.view, AllocateOutput(*step_, call->place, *info.node, prepared, k));
    iteration->Own(at);
    return Status::Ok();
  }
  auto memory = iteration->MemoryOf(&slot, std::max<uint64_t>(bytes, 1));
  if (!memory.ok()) return Status(memory.status()).Annotate(StrCat(info.node->Describe(), ", output ", k));
  const tenon_shape dims = IsRef(dtype) ? tenon_shape{nullptr, 0, 0} : prepared.outputs[k].shape.c();
  slot.view = MakeView(dtype, dims, *memory, bytes, nullptr);
  slot.made_for = &prepared;
  slot.shape_id = k < kShapeIds ? prepared.shape_ids + static_cast<uint64_t>(k) : 0;
  return Status::Ok();
}

Status KernelCalls::Run(Call* call, bool timed) {
  if (call->last->kernel->has(TENON_KERNEL_VIEW)) return RunView(call);
  if (call->place.device != nullptr) return RunQueued(call);
  if (call->last->workspace_bytes > 0) {
    TENON_RETURN_IF_ERROR(Workspace(call->last->workspace_bytes));
    call->frame.workspace = workspace_;
  }
  return timed ? RunTimed(*call->last, &call->frame) : RunPrepared(*call->last, &call->frame);
}

Status KernelCalls::RunTimed(const PreparedNode& prepared, tenon_frame* frame) {
  const uint64_t shared = HostThreads::SharedRuns(), begin = NowNs();
  Status status = RunPrepared(prepared, frame);
  prepared.took_ns.store(NowNs() - begin, std::memory_order_relaxed);
  prepared.shares.store(HostThreads::SharedRuns() != shared, std::memory_order_relaxed);
  return status;
}

Status KernelCalls::RunView(Call* call) {
  const NodeInfo& info = *call->info;
  const Shape& shape = call->last->outputs[0].shape;
  if (!shape.fully_known()) return Internal(StrCat(info.node->Describe(), ": the shape of its result is not known"));
  Iteration* const iteration = call->iteration;
  iteration->Forward(iteration->Input(info, 0), info.first_output);
  Slot& slot = iteration->slots[info.first_output];
  slot.shape_id = call->last->shape_ids;
  return ShowAs(*info.node, shape, &slot.view);
}

Status KernelCalls::RunQueued(Call* call) {
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

Status KernelCalls::Workspace(uint64_t bytes) {
  if (bytes <= workspace_bytes_) return Status::Ok();
  if (workspace_ != nullptr) pool_->FreeRaw(std::exchange(workspace_, nullptr), std::exchange(workspace_bytes_, 0));
  TENON_ASSIGN_OR_RETURN(workspace_, pool_->AllocateRaw(bytes));
  workspace_bytes_ = bytes;
  return Status::Ok();
}

Status KernelCalls::TakeOutputs(Call* call, bool ran_well) {
  const NodeInfo& info = *call->info;
  Iteration* const iteration = call->iteration;
  for (int32_t k = 0; k < info.output_count; ++k) {
    const int32_t at = info.first_output + k;
    Slot& slot = iteration->slots[at];
    if (slot.view.buffer == nullptr) continue;
    slot.made_for = nullptr;
    slot.shape_id = 0;
    if (!slot.owned) iteration->Own(at);
  }
  // Of a view output 0 is its input, which was looked at, and may be memory of the caller's, in no buffer.
  for (int32_t k = call->last->kernel->has(TENON_KERNEL_VIEW) ? 1 : 0; ran_well && k < info.output_count; ++k) {
    const tenon_tensor_view& view = iteration->slots[info.first_output + k].view;
    TENON_RETURN_IF_ERROR(CheckOutput(*call, *call->last, k, view));
  }
  return Status::Ok();
}

}  // namespace tenon::exec::dataflow
