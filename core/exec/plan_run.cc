// SPDX-License-Identifier: Apache-2.0
#include "core/exec/plan_run.h"

namespace tenon::exec {

Status PlanRun::Run(Step* step, const tenon_tensor_view* const* feeds) {
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<Program> program, plan_->Bind(feeds, program_, step->cancellation));
  dynamic_ran_ = program == nullptr;
  if (dynamic_ran_) {
    if (dynamic_ == nullptr) {
      TENON_ASSIGN_OR_RETURN(dynamic_plan_, plan_->Dynamic(step->cancellation));
      dynamic_ = dynamic_plan_->Acquire();
    }
    ran_ = true;
    return dynamic_->Run(step, feeds);
  }
  if (program != program_) {
    if (instance_ != nullptr) program_->GiveBack(std::exchange(instance_, nullptr));
    program_ = std::move(program);
  }
  if (instance_ == nullptr) {
    TENON_ASSIGN_OR_RETURN(instance_, program_->Acquire());
  }
  ran_ = true;
  return instance_->Run(step, feeds);
}

void PlanRun::Finish() {
  if (!std::exchange(ran_, false)) return;
  if (dynamic_ran_) dynamic_->Finish();
  else instance_->Finish();
}

void PlanRun::ReturnInstances() {
  if (instance_ != nullptr) program_->GiveBack(std::exchange(instance_, nullptr));
  if (dynamic_ != nullptr) dynamic_plan_->GiveBack(std::exchange(dynamic_, nullptr));
  program_.reset();
}

}  // namespace tenon::exec
