// SPDX-License-Identifier: Apache-2.0
// StepQueues: the queues of devices that a program's step works with, and the points of their timelines that its
// operations tell and wait for.
#ifndef TENON_CORE_EXEC_PROGRAM_STEP_QUEUES_H_
#define TENON_CORE_EXEC_PROGRAM_STEP_QUEUES_H_

#include <span>
#include <vector>

#include "core/exec/device/queue_work.h"
#include "core/exec/program/program.h"

namespace tenon::exec::program {

struct Context;

class StepQueues {
 public:
  explicit StepQueues(const Program* program);

  QueueWork& work() { return work_; }
  bool abandoned() const { return work_.abandoned(); }
  // A context with work for a queue, as the program is made.
  void Add(Context* context) { queued_.push_back(context); }
  Status Begin(Step* step);
  // What the operation waits for: one point of each timeline. Valid until the next call for the context.
  std::span<const tenon_timeline_point> PointsOf(Context* context) const;
  // Where its end is told; nullptr: it is told to nobody.
  tenon_timeline_point* SignalOf(const Operation& operation) {
    return !operation.signal ? nullptr : &points_[operation.signal];
  }
  Status BeforeWork(Context* context);
  Status AfterWork(Context* context);

 private:
  const Program& program_;
  QueueWork work_;
  IdVector<PointId, tenon_timeline_point> points_;  // last told
  std::vector<Context*> queued_;
  bool points_are_new_ = true;
};

}  // namespace tenon::exec::program

#endif  // TENON_CORE_EXEC_PROGRAM_STEP_QUEUES_H_
