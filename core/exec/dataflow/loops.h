// SPDX-License-Identifier: Apache-2.0
// Loops: values that enter loops, go on to their next turns, and leave them; and the turns and loops that end with it.
#ifndef TENON_CORE_EXEC_DATAFLOW_LOOPS_H_
#define TENON_CORE_EXEC_DATAFLOW_LOOPS_H_

#include <vector>

#include "core/exec/dataflow/deliveries.h"
#include "core/exec/dataflow/frames.h"
#include "core/exec/dataflow/step_error.h"

namespace tenon::exec::dataflow {

class Loops {
 public:
  // All outlive it.
  Loops(const DynamicPlan* plan, Frames* frames, Deliveries* deliveries, StepError* error)
      : plan_(*plan), frames_(*frames), deliveries_(*deliveries), error_(*error) {}

  void Begin() { turns_ = 0; }
  // What an Enter, Exit or NextIteration does with its value, which is there, or dead.
  void Enter(const NodeInfo& info, Iteration* iteration, bool dead);
  void Exit(const NodeInfo& info, Iteration* iteration);
  // The loop's end says it, unless another turn brings a value.
  static void ExitDead(const NodeInfo& info, Iteration* iteration);
  // Whether the value went on; false: it waits until an iteration ends.
  bool Next(const NodeInfo& info, Iteration* iteration);
  // A node of the iteration is done; a loop may be with it.
  void Leave(Iteration* iteration) {
    if (--iteration->running == 0 && iteration->frame != frames_.root()) Settle(iteration->frame);
  }

 private:
  FrameInstance* ChildFrame(Iteration* iteration, const NodeInfo& enter);
  Iteration* NewIteration(FrameInstance* frame);
  // Something of the frame ended: drops finished iterations, and the frame when all are.
  void Settle(FrameInstance* frame);
  // What was held back by the limit goes on into a new iteration.
  void LetOn(FrameInstance* frame, Iteration* from, bool from_stays);
  void EndFrame(FrameInstance* frame);

  const DynamicPlan& plan_;
  Frames& frames_;
  Deliveries& deliveries_;
  StepError& error_;
  uint32_t turns_ = 0;                 // that the step has begun
  std::vector<const NodeInfo*> held_;  // while they are let go
};

}  // namespace tenon::exec::dataflow

#endif  // TENON_CORE_EXEC_DATAFLOW_LOOPS_H_
