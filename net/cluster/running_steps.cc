// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/running_steps.h"

#include <algorithm>

namespace tenon::cluster {
namespace {

// A step that lasts longer has its peers asked whether they live.
constexpr uint64_t kLastsNs = 500'000'000;

}  // namespace

bool RunningSteps::Add(tenon_reply* call, std::shared_ptr<WorkerStep> step) {
  const std::lock_guard lock(mutex_);
  running_.emplace(call, std::move(step));
  ++queued_;
  const auto coming = coming_.find(call);
  return coming != coming_.end() && coming->second;
}

void RunningSteps::Remove(tenon_reply* call) {
  std::shared_ptr<WorkerStep> removed;  // goes after the lock
  const std::lock_guard lock(mutex_);
  const auto at = running_.find(call);
  if (at == running_.end()) return;
  removed = std::move(at->second);
  running_.erase(at);
}

std::shared_ptr<WorkerStep> RunningSteps::Cancelled(tenon_reply* call) {
  const std::lock_guard lock(mutex_);
  if (const auto at = running_.find(call); at != running_.end()) return at->second;
  if (const auto coming = coming_.find(call); coming != coming_.end()) coming->second = true;
  return nullptr;
}

std::map<std::string, Peers::Busy> RunningSteps::BusyPeers(uint64_t now_ns) const {
  std::map<std::string, Peers::Busy> busy;
  const std::lock_guard lock(mutex_);
  for (const auto& [call, step] : running_) {
    if (now_ns <= step->started_ns + kLastsNs) continue;
    for (const auto& [address, peer] : step->part->peers) {
      Peers::Busy& one = busy.try_emplace(address, Peers::Busy{peer, 0}).first->second;
      one.patience_ns = std::max(one.patience_ns, Peers::PatienceOf(step->session->silence_ns));
    }
  }
  return busy;
}

void RunningSteps::Count(WorkerState* out) const {
  const std::lock_guard lock(mutex_);
  out->steps_queued = queued_;
  out->steps_running = running_.size() - out->steps_queued;
}

std::string RunningSteps::Say() const {
  std::string text;
  const std::lock_guard lock(mutex_);
  for (const auto& [call, step] : running_)
    text += StrCat(text.empty() ? "" : ", ", "step ", step->number, " of part ", step->part->number, " of session ",
                   step->session->id);
  return text;
}

}  // namespace tenon::cluster
