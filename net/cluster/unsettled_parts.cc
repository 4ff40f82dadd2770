// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/unsettled_parts.h"

#include "net/cluster/planted.h"
#include "net/cluster/protocol.h"

namespace tenon::cluster {

void UnsettledParts::Add(const std::vector<Part>& parts) {
  const std::lock_guard lock(mutex_);
  parts_.insert(parts_.end(), parts.begin(), parts.end());
  any_ = !parts_.empty();
}

// All that wait for it ask for themselves, since their patience differs.
Status UnsettledParts::SettleOne(const Part& left, Cancellation* cancellation, uint64_t deadline_ns) {
  StepRequest head;
  head.set_session(session_);
  head.set_part(left.part);
  head.set_step(left.step);
  Cancellation ended;
  const auto end = [&ended](const Status& why) { ended.Cancel(why); };
  Subscription given_up, lost(tasks_->gone(left.task), end);
  if (cancellation != nullptr) given_up.Begin(cancellation, end);
  Status status = Ask(*tasks_->connection(left.task), kMethodSettle, head, deadline_ns, nullptr, &ended);
  if (status.ok()) return status;
  return std::move(status).Annotate(
      StrCat(tasks_->Where(left.task), ": whether step ", left.step, ", which was given up, is over"));
}

std::vector<UnsettledParts::Part> UnsettledParts::SharedWith(const StepState& state) {
  std::vector<Part> shared;
  const std::lock_guard lock(mutex_);
  std::erase_if(parts_, [this](const Part& left) { return !tasks_->lost(left.task).ok(); });
  for (const Part& left : parts_)
    if (state.Shares(*left.state, left.task)) shared.push_back(left);
  any_ = !parts_.empty();
  return shared;
}

Status UnsettledParts::Settle(const StepState& state, Cancellation* cancellation, uint64_t deadline_ns) {
  if (!any_ || Planted(Bug::kGivenUpGoesOn)) return Status::Ok();
  for (const Part& left : SharedWith(state)) {
    TENON_RETURN_IF_ERROR(SettleOne(left, cancellation, deadline_ns));
    const std::lock_guard lock(mutex_);
    std::erase(parts_, left);
    any_ = !parts_.empty();
  }
  return Status::Ok();
}

}  // namespace tenon::cluster
