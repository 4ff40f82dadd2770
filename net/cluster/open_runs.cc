// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/open_runs.h"

namespace tenon::cluster {

void OpenRuns::Add(uint64_t number, OpenRun* run) {
  const std::lock_guard lock(mutex_);
  runs_.emplace(number, run);
}

void OpenRuns::Remove(uint64_t number) {
  const std::lock_guard lock(mutex_);
  runs_.erase(number);
}

void OpenRuns::GiveUpStep(uint64_t number, const Status& why) {
  const std::lock_guard lock(mutex_);
  if (const auto at = runs_.find(number); at != runs_.end()) at->second->GiveUp(why);
}

void OpenRuns::GiveUpBetween(size_t task, size_t peer, const Status& why) {
  const std::lock_guard lock(mutex_);
  for (const auto& [number, run] : runs_)
    if (run->Uses(task) && run->Uses(peer)) run->GiveUp(why);
}

void OpenRuns::GiveUpAll(const Status& why) {
  const std::lock_guard lock(mutex_);
  for (const auto& [number, run] : runs_) run->GiveUp(why);
}

}  // namespace tenon::cluster
