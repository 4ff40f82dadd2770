// SPDX-License-Identifier: Apache-2.0
// PlanRun: runs steps of one plan, one at a time, and keeps the program or executor that served the last one.
#ifndef TENON_CORE_EXEC_PLAN_RUN_H_
#define TENON_CORE_EXEC_PLAN_RUN_H_

#include <memory>
#include <utility>

#include "core/exec/dynamic_executor.h"
#include "core/exec/plan.h"
#include "core/exec/program.h"

namespace tenon::exec {

class PlanRun {
 public:
  explicit PlanRun(Plan* plan) : plan_(plan) {}
  ~PlanRun() { ReturnInstances(); }
  PlanRun(const PlanRun&) = delete;
  PlanRun& operator=(const PlanRun&) = delete;

  // On this thread. feeds: as Plan::Bind takes them; borrowed until Finish.
  Status Run(Step* step, const tenon_tensor_view* const* feeds);
  // What fetch i is; valid from a Run that went well until Finish.
  const tenon_tensor_view& fetch(size_t i) const { return dynamic_ran_ ? dynamic_->fetch(i) : instance_->fetch(i); }
  // After Run, also when it failed: releases the step's buffers.
  void Finish();
  // Whether what ran did not end, and may use all that the step had, at any time.
  bool abandoned() const { return (dynamic_ != nullptr && dynamic_->abandoned()) || (instance_ != nullptr && instance_->abandoned()); }
  // Back to their pools.
  void ReturnInstances();

 private:
  Plan* plan_;
  std::shared_ptr<Program> program_;     // of `instance_`
  ProgramInstance* instance_ = nullptr;  // kept between steps of the same shapes
  DynamicPlan* dynamic_plan_ = nullptr;  // of `dynamic_`
  DynamicInstance* dynamic_ = nullptr;
  bool ran_ = false, dynamic_ran_ = false;
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_PLAN_RUN_H_
