// SPDX-License-Identifier: Apache-2.0
// KernelCalls: kernels of a step as calls: which kernel it is for the inputs that have come, memory for its outputs,
// the run, and what it left in them.
#ifndef TENON_CORE_EXEC_DATAFLOW_KERNEL_CALLS_H_
#define TENON_CORE_EXEC_DATAFLOW_KERNEL_CALLS_H_

#include "core/exec/dataflow/iteration.h"
#include "core/exec/device/queue_work.h"
#include "core/exec/kernel/kernel_instance.h"

namespace tenon::exec::dataflow {

class KernelCalls {
 public:
  explicit KernelCalls(BufferPool* pool) : pool_(pool) {}
  ~KernelCalls() {
    if (workspace_ != nullptr) pool_->FreeRaw(workspace_, workspace_bytes_);
  }
  KernelCalls(const KernelCalls&) = delete;
  KernelCalls& operator=(const KernelCalls&) = delete;

  void Begin(Step* step) { step_ = step; }
  // Finds the kernel for the call's inputs, and makes what its outputs will lie in.
  Status Prepare(Call* call);
  // Whether it may run on another thread: one that says that it is worth it, and any other whose outputs alone tell
  // that it has run, until it was seen to be short. Such are timed.
  static bool MayLeave(const Call& call);
  // On this thread, or on its device's queue: all on the main queue, in the order of the host's calls, so that memory
  // may go back to the pool as soon as its last user has been submitted.
  Status Run(Call* call, bool timed);
  static Status RunTimed(const PreparedNode& prepared, tenon_frame* frame);
  // After the kernel: what it allocated or shared belongs to the slots, also when it failed.
  Status TakeOutputs(Call* call, bool ran_well);

 private:
  Status Resolve(Call* call);
  Status MakeOutput(Call* call, int32_t k);
  // The result is the input's memory under other dims.
  Status RunView(Call* call);
  Status RunQueued(Call* call);
  Status Workspace(uint64_t bytes);

  BufferPool* const pool_;
  Step* step_ = nullptr;
  void* workspace_ = nullptr;  // of kernels on this thread, one after the other
  uint64_t workspace_bytes_ = 0;
};

// Inline: it stands on every kernel's way.
inline bool KernelCalls::MayLeave(const Call& call) {
  const uint32_t traits = call.last->kernel->registration().traits;
  if ((traits & TENON_KERNEL_VIEW) != 0) return false;
  if ((traits & (TENON_KERNEL_ASYNC | TENON_KERNEL_BLOCKING | TENON_KERNEL_EXPENSIVE)) != 0) return true;
  if (!call.info->may_run_beside) return false;
  const uint64_t took = call.last->took_ns.load(std::memory_order_relaxed);
  return took == 0 || took >= kWorthAThreadNs;
}

}  // namespace tenon::exec::dataflow

#endif  // TENON_CORE_EXEC_DATAFLOW_KERNEL_CALLS_H_
