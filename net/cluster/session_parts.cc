// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/session_parts.h"

#include <algorithm>

#include "core/base/clock.h"
#include "net/cluster/planted.h"

namespace tenon::cluster {
namespace {

// Of each part; what comes for older ones that do not run is late too.
constexpr size_t kStepsRemembered = 4096;
// Steps whose values come before their master's message.
constexpr size_t kMostEarlySteps = 1024;
// Steps that stand still between calls, whether or not somebody will ever go on with them.
constexpr size_t kMostInGoes = 1024;

}  // namespace

// ---- Parts ----

Status SessionParts::Add(std::shared_ptr<const WorkerPart> part) {
  const std::lock_guard lock(mutex_);
  if (!closed_.ok()) return closed_;
  const uint32_t number = part->number;
  if (!parts_.emplace(number, std::move(part)).second)
    return AlreadyExists(StrCat("part ", number, " is registered"));
  last_part_ = std::max(last_part_, number);
  return Status::Ok();
}

std::vector<std::shared_ptr<const WorkerPart>> SessionParts::Drop(
    const google::protobuf::RepeatedField<uint32_t>& numbers) {
  std::vector<std::shared_ptr<const WorkerPart>> dropped;
  dropped.reserve(static_cast<size_t>(numbers.size()));
  const std::lock_guard lock(mutex_);
  for (const uint32_t number : numbers) {
    const auto at = parts_.find(number);
    if (at == parts_.end()) continue;
    dropped.push_back(std::move(at->second));
    parts_.erase(at);
    over_.erase(number);
  }
  return dropped;
}

bool SessionParts::HasPeer(const std::string& address) const {
  return std::any_of(parts_.begin(), parts_.end(),
                     [&](const auto& each) { return each.second->peers.contains(address); });
}

// ---- Steps ----

Result<std::shared_ptr<WorkerStep>> SessionParts::StepOf(uint32_t part, uint64_t step) {
  if (!closed_.ok()) return closed_;
  const auto at = parts_.find(part);
  if (at == parts_.end())
    return NotFound(StrCat("session ", session->id, " has no part ", part, " at task ", services_->task));
  if (IsOver(part, step)) return FailedPrecondition(StrCat("step ", step, " of part ", part, " is over"));
  const auto known = steps_.find({part, step});
  if (known != steps_.end()) return known->second;
  auto made = std::make_shared<WorkerStep>(services_, session, at->second, step);
  steps_.emplace(std::make_pair(part, step), made);
  return made;
}

Result<SessionParts::Meeting> SessionParts::Meet(const DataKey& key, tenon_peer* sender) {
  const std::lock_guard lock(mutex_);
  uint64_t number = key.step;
  if (Planted(Bug::kStepNumberIgnored))
    for (const auto& [at, step] : steps_)
      if (at.first == key.part) number = at.second;
  Meeting meeting;
  if (const auto at = parts_.find(key.part); at != parts_.end()) meeting.part = at->second;
  const bool is_new = !steps_.contains({key.part, number});
  // A part may end before all that was sent to it is there: what a branch that was not taken did not need.
  const bool forget = Planted(Bug::kEarlyValueDropped) && is_new;
  if (IsDropped(key.part) || IsOver(key.part, number) || forget) return meeting;
  const uint64_t of_sender = early_->Of(sender);
  if (is_new && (early_steps_ >= kMostEarlySteps || of_sender >= EarlySteps::kMost))
    return ResourceExhausted(StrCat("values came for ", early_steps_, " steps of session ", session->id,
                                    " that its master has not begun at task ", services_->task,
                                    ", and by way of one connection for ", of_sender, "; there may be ",
                                    kMostEarlySteps, " and ", EarlySteps::kMost));
  TENON_ASSIGN_OR_RETURN(meeting.step, StepOf(key.part, number));
  if (is_new) {
    early_->Add(sender);
    ++early_steps_;
    meeting.step->early_of = sender;
  }
  return meeting;
}

void SessionParts::NoLongerEarly(WorkerStep* step) {
  tenon_peer* const sender = std::exchange(step->early_of, nullptr);
  if (sender == nullptr) return;
  --early_steps_;
  early_->Remove(sender);
}

Result<std::shared_ptr<WorkerStep>> SessionParts::Begin(uint32_t part, uint64_t number) {
  const std::lock_guard lock(mutex_);
  TENON_ASSIGN_OR_RETURN(const std::shared_ptr<WorkerStep> step, StepOf(part, number));
  if (step->started()) return AlreadyExists(StrCat("step ", number, " of part ", part, " runs already"));
  if (step->part->in_goes && in_goes_ >= kMostInGoes)
    return ResourceExhausted(StrCat("session ", session->id, " has ", in_goes_, " partial runs under way at task ",
                                    services_->task, ", as many as it may; finish some, or let go of them"));
  in_goes_ += step->part->in_goes;
  session->heard_ns = step->started_ns = NowNs();
  NoLongerEarly(step.get());
  return step;
}

std::vector<Reply> SessionParts::End(WorkerStep* step) {
  std::shared_ptr<WorkerStep> ended;  // goes after the lock
  std::vector<Reply> settles;
  const std::lock_guard lock(mutex_);
  settles.swap(step->settles);
  in_goes_ -= step->part->in_goes;
  const auto at = steps_.find({step->part->number, step->number});
  if (at != steps_.end()) {
    ended = std::move(at->second);
    steps_.erase(at);
  }
  NoteOver(step->part->number, step->number);
  return settles;
}

bool SessionParts::Settle(uint32_t part, uint64_t step, const Reply& reply) {
  std::shared_ptr<WorkerStep> forgotten;  // goes after the lock
  const std::lock_guard lock(mutex_);
  const auto at = steps_.find({part, step});
  if (at != steps_.end() && at->second->started()) {
    at->second->settles.push_back(reply);
    return false;
  }
  if (at != steps_.end()) {
    NoLongerEarly(at->second.get());
    forgotten = std::move(at->second);
    steps_.erase(at);
  }
  NoteOver(part, step);
  return true;
}

Result<std::shared_ptr<WorkerStep>> SessionParts::Running(uint32_t part, uint64_t step) const {
  const std::lock_guard lock(mutex_);
  const auto at = steps_.find({part, step});
  if (at != steps_.end() && at->second->started()) return at->second;
  if (IsOver(part, step)) return std::shared_ptr<WorkerStep>();
  return NotFound(StrCat("step ", step, " of part ", part, " has not begun at task ", services_->task));
}

void SessionParts::NoteOver(uint32_t part, uint64_t step) {
  if (!parts_.contains(part)) return;  // whatever comes for it is late
  std::set<uint64_t>& ended = over_[part];
  ended.insert(step);
  if (ended.size() > kStepsRemembered) ended.erase(ended.begin());
}

bool SessionParts::IsOver(uint32_t part, uint64_t step) const {
  const auto at = over_.find(part);
  if (at == over_.end() || steps_.contains({part, step}) || Planted(Bug::kEndedStepComesBack)) return false;
  return at->second.contains(step) || (at->second.size() >= kStepsRemembered && step < *at->second.begin());
}

// ---- All of them ----

SessionParts::Steps SessionParts::LosePeer(const std::string& address, const Status& why, bool noted) {
  Steps with;
  const std::lock_guard lock(mutex_);
  if (noted && HasPeer(address) && !Planted(Bug::kLossNotTold)) session->losses.Note(why, 0, address);
  for (const auto& [key, step] : steps_)
    if (step->part->peers.contains(address)) with.push_back(step);
  return with;
}

SessionParts::Steps SessionParts::Close(const Status& why) {
  Steps open;
  const std::lock_guard lock(mutex_);
  closed_ = why;
  for (const auto& [key, step] : steps_) open.push_back(step);
  return open;
}

void SessionParts::Clear() {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, step] : steps_) NoLongerEarly(step.get());
  steps_.clear();
  parts_.clear();
}

SessionParts::Steps SessionParts::Count(WorkerState* out) const {
  Steps all;
  const std::lock_guard lock(mutex_);
  out->parts += parts_.size();
  for (const auto& [key, step] : steps_) {
    out->steps_expected += !step->started();
    all.push_back(step);
  }
  return all;
}

}  // namespace tenon::cluster
