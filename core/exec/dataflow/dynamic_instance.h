// SPDX-License-Identifier: Apache-2.0
// The dynamic executor: runs a plan node by node as values arrive, for control flow that straight code cannot express,
// asynchronous kernels, and as the reference that straight code is tested against.
//
// Semantics (tagged dataflow): a value belongs to a frame (a loop that runs) and an iteration of it. A node runs in an
// iteration when all its inputs have arrived there; a merge when one live input has, or all are dead. Deadness spreads
// through data and control edges. Enter, Exit and NextIteration move values between frames and iterations.
//
// Memory. An iteration has a slot for each value, a prepared frame for each kernel, and memory of its own for small
// results; all of it is made once, pooled, and used again by later iterations and steps, so that a steady node costs
// its call, a comparison of shapes and the counting of its consumers. Larger results come from the session's pool and
// are released after their last consumer. A value that leaves its iteration takes its bytes along.
//
// Order: ReadyNodes. A branch is done before the next one begins, so that few values are alive at once; what other
// devices can begin has begun before the host waits.
//
// Invariants. All bookkeeping belongs to the thread that drives the step; what finishes elsewhere leaves a message in
// an inbox (Elsewhere). So there is no lock and no atomic for a node. Run returns when nothing of the step runs any
// more; or, when the step was cancelled and a kernel does not end in a while, without it: then abandoned() holds.
#ifndef TENON_CORE_EXEC_DATAFLOW_DYNAMIC_INSTANCE_H_
#define TENON_CORE_EXEC_DATAFLOW_DYNAMIC_INSTANCE_H_

#include <memory>

#include "core/exec/dataflow/deliveries.h"
#include "core/exec/dataflow/elsewhere.h"
#include "core/exec/dataflow/fetched_values.h"
#include "core/exec/dataflow/frames.h"
#include "core/exec/dataflow/kernel_calls.h"
#include "core/exec/dataflow/loops.h"
#include "core/exec/dataflow/queue_copies.h"
#include "core/exec/dataflow/ready_nodes.h"
#include "core/exec/dataflow/step_error.h"
#include "core/exec/device/queue_work.h"

namespace tenon::exec {

// One step's memory and bookkeeping. Serves one step at a time.
class DynamicInstance {
 public:
  // The plan outlives it.
  static Result<std::unique_ptr<DynamicInstance>> Create(const DynamicPlan* plan);
  ~DynamicInstance() { Finish(); }

  // Feeds are borrowed until Finish.
  Status Run(Step* step, const tenon_tensor_view* const* feeds);
  // Whether the step stands still (Step::enough): it has not ended.
  bool stands_still() const { return stands_still_; }
  Status GoOn();
  // What fetch i is; valid until Finish.
  const tenon_tensor_view& fetch(size_t i) const { return fetched_.view(i); }
  // Releases the step's buffers.
  void Finish();
  // Whether a device or a kernel still has hold of its memory: it may not be used again, nor freed.
  bool abandoned() const { return elsewhere_.abandoned() || work_.abandoned(); }

 private:
  using Call = dataflow::Call;
  using Iteration = dataflow::Iteration;
  using Kind = DynamicPlan::Kind;
  using NodeInfo = DynamicPlan::NodeInfo;

  explicit DynamicInstance(const DynamicPlan* plan);
  template <typename First>
  Status Drive(First first);
  void Begin(const tenon_tensor_view* const* feeds);
  void Loop();
  void TakeInbox(bool wait);
  void Abandon();

  // What is ready runs: each leaves its values with those who consume them, or fails the step.
  void Process(const dataflow::Ready& ready);
  void ProcessDead(const NodeInfo& info, Iteration* iteration);
  void ProcessForward(const NodeInfo& info, Iteration* iteration);
  void ProcessSwitch(const NodeInfo& info, Iteration* iteration);
  void ProcessMerge(const NodeInfo& info, Iteration* iteration);
  void ProcessKernel(const NodeInfo& info, Iteration* iteration);
  void ProcessTransfer(const NodeInfo& info, Iteration* iteration);
  void ProcessUnfed(const NodeInfo& info, Iteration* iteration);
  void ProcessSend(const NodeInfo& info, Iteration* iteration, bool dead);
  bool RunsElsewhere(const Call& call) const;
  // A kernel has run, well or not.
  void Conclude(Call* call, Status status);
  // A receive has its value, or none.
  void Conclude(dataflow::Elsewhere::Arrival arrival);
  // Reads the variables whose values the node wants. false: the step has failed.
  bool ReadReferences(const NodeInfo& info, Iteration* iteration);
  Status ReadReference(const NodeInfo& info, const DynamicPlan::Dereference& dereference, Iteration* iteration);
  void Finished(const NodeInfo& info, Iteration* iteration) {
    iteration->UseInputs(info);
    loops_.Leave(iteration);
  }

  const DynamicPlan& plan_;
  QueueWork work_;
  Step* step_ = nullptr;
  bool stands_still_ = false;
  dataflow::StepError error_;
  dataflow::ReadyNodes ready_;
  dataflow::FetchedValues fetched_;
  dataflow::Deliveries deliveries_;
  dataflow::Elsewhere elsewhere_;
  dataflow::Frames frames_;
  dataflow::Loops loops_;
  dataflow::KernelCalls kernels_;
  dataflow::QueueCopies copies_;
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_DATAFLOW_DYNAMIC_INSTANCE_H_
