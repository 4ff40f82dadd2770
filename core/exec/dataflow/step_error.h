// SPDX-License-Identifier: Apache-2.0
// StepError: what ends a step: the first error that is told. It cancels the step, so that what runs elsewhere ends.
#ifndef TENON_CORE_EXEC_DATAFLOW_STEP_ERROR_H_
#define TENON_CORE_EXEC_DATAFLOW_STEP_ERROR_H_

#include <utility>

#include "core/exec/device/step.h"

namespace tenon::exec::dataflow {

class StepError {
 public:
  void Begin(Step* step) {
    step_ = step;
    error_ = Status::Ok();
    failed_ = false;
  }
  void Fail(Status status) noexcept {
    if (!error_.ok()) return;
    failed_ = true;
    error_ = std::move(status);
    if (!step_->cancellation->cancelled())
      step_->cancellation->Cancel(Status::Of(Code::kCancelled, "another node of the step failed: ", error_.message()));
  }
  bool none() const { return error_.ok(); }
  // Whether there was one, also when it has been taken.
  bool failed() const { return failed_; }
  void Annotate(std::string_view more) { error_ = std::move(error_).Annotate(more); }
  Status Take() { return std::exchange(error_, Status::Ok()); }

 private:
  Step* step_ = nullptr;
  Status error_;
  bool failed_ = false;
};

}  // namespace tenon::exec::dataflow

#endif  // TENON_CORE_EXEC_DATAFLOW_STEP_ERROR_H_
