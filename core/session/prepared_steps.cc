// SPDX-License-Identifier: Apache-2.0
#include "core/session/prepared_steps.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/session/callable.h"
#include "core/session/partial_run_plan.h"

namespace tenon::session {

PreparedSteps::Step PreparedSteps::Find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto at = kept_.find(key);
  if (at == kept_.end()) return {};
  at->second.used = ++uses_;
  return at->second.step;
}

uint64_t PreparedSteps::begin() const {
  const std::lock_guard lock(mutex_);
  return drops_;
}

PreparedSteps::Step PreparedSteps::Keep(const std::string& key, Step step, uint64_t begun) {
  std::vector<Step> dropped;  // a plan takes its time to go
  const size_t nodes = step.callable->node_count();
  const std::lock_guard lock(mutex_);
  if (begun != drops_) return step;
  const auto [at, is_new] = kept_.try_emplace(key, Kept{std::move(step), ++uses_, nodes});
  Step kept = at->second.step;
  if (is_new) nodes_ += nodes;
  while (is_new && (kept_.size() > kMost || (kept_.size() > kLeast && nodes_ > kMostNodes))) {
    const auto oldest = std::min_element(kept_.begin(), kept_.end(),
                                         [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    nodes_ -= oldest->second.nodes;
    dropped.push_back(std::move(oldest->second.step));
    kept_.erase(oldest);
  }
  return kept;
}

bool PreparedSteps::Drop() {
  std::unordered_map<std::string, Kept> dropped;
  const std::lock_guard lock(mutex_);
  dropped.swap(kept_);
  nodes_ = 0;
  ++drops_;
  return !dropped.empty();
}

}  // namespace tenon::session
