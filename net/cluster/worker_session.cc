// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/worker_session.h"

#include <algorithm>

#include "net/cluster/planted.h"

namespace tenon::cluster {
namespace {

// Of each part; what comes for older ones that do not run is late too.
constexpr size_t kStepsRemembered = 4096;

}  // namespace

void WorkerSession::Note(const Status& why, uint64_t step, const std::string& peer) {
  Loss& loss = losses_.emplace_back();
  loss.set_code(static_cast<uint32_t>(why.code()));
  loss.set_text(std::string(why.message()));
  loss.set_step(step);
  loss.set_peer(peer);
}

void WorkerSession::TellLosses(uint64_t known, PingReply* answer) {
  const uint64_t forgotten = std::min<uint64_t>(known - std::min(known, losses_before_), losses_.size());
  losses_.erase(losses_.begin(), losses_.begin() + static_cast<std::ptrdiff_t>(forgotten));
  losses_before_ += forgotten;
  for (const Loss& loss : losses_) *answer->add_losses() = loss;
  answer->set_losses_count(losses_before_ + losses_.size());
}

std::shared_ptr<const WorkerPart> WorkerSession::Drop(uint32_t part) {
  const auto at = parts.find(part);
  if (at == parts.end()) return nullptr;
  const std::shared_ptr<const WorkerPart> dropped = std::move(at->second);
  parts.erase(at);
  over_.erase(part);
  return dropped;
}

void WorkerSession::End(uint32_t part, uint64_t step) {
  if (!parts.contains(part)) return;  // whatever comes for it is late
  std::set<uint64_t>& ended_steps = over_[part];
  ended_steps.insert(step);
  if (ended_steps.size() > kStepsRemembered) ended_steps.erase(ended_steps.begin());
}

bool WorkerSession::IsOver(uint32_t part, uint64_t step) const {
  const auto at = over_.find(part);
  if (at == over_.end() || steps.contains({part, step}) || Planted(Bug::kEndedStepComesBack)) return false;
  return at->second.contains(step) || (at->second.size() >= kStepsRemembered && step < *at->second.begin());
}

bool WorkerSession::HasPeer(const std::string& address) const {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const auto& each) { return each.second->peers.contains(address); });
}

}  // namespace tenon::cluster
