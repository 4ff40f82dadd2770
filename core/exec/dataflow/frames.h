// SPDX-License-Identifier: Apache-2.0
// Frames: frames and iterations, made once, kept, and taken again.
#ifndef TENON_CORE_EXEC_DATAFLOW_FRAMES_H_
#define TENON_CORE_EXEC_DATAFLOW_FRAMES_H_

#include <memory>
#include <vector>

#include "core/exec/dataflow/iteration.h"
#include "core/exec/device/queue_work.h"

namespace tenon::exec::dataflow {

class Frames {
 public:
  // All outlive it. Calls that run elsewhere come back to `home`.
  Frames(const DynamicPlan* plan, QueueWork* work, Elsewhere* home);
  ~Frames();
  Frames(const Frames&) = delete;
  Frames& operator=(const Frames&) = delete;

  FrameInstance* root() { return &root_; }
  Iteration* root_iteration() { return root_iteration_; }
  // All that were made, in use or not.
  const std::vector<std::unique_ptr<Iteration>>& iterations() const { return iterations_; }
  Iteration* Take(FrameId frame);
  FrameInstance* TakeFrame(FrameId frame);
  // Takes an iteration whose nodes are done out of use, with what of child frames is left in it.
  void Recycle(Iteration* iteration);
  // Recycled, it may be taken again.
  void Spare(Iteration* iteration);
  void Abandon(FrameInstance* frame);
  // After a step that failed, wherever it was: all is as it was made.
  void RecycleAll();

 private:
  Iteration* Make(FrameId frame);
  void MakeCalls(Iteration* iteration);
  // A frame whose iterations have gone.
  void Retire(FrameInstance* frame);

  const DynamicPlan& plan_;
  QueueWork* const work_;
  Elsewhere* const home_;
  std::vector<std::unique_ptr<Iteration>> iterations_;
  std::vector<std::unique_ptr<FrameInstance>> frames_;  // all but the root
  IdVector<FrameId, Iteration*> spare_iterations_;      // the first of each
  IdVector<FrameId, FrameInstance*> spare_frames_;
  FrameInstance root_;
  Iteration* root_iteration_;
};

}  // namespace tenon::exec::dataflow

#endif  // TENON_CORE_EXEC_DATAFLOW_FRAMES_H_
