// SPDX-License-Identifier: Apache-2.0
// EarlySteps: how many steps there are whose values have come and whose master's message has not, by who sent the first
// of these values.
#ifndef TENON_NET_CLUSTER_EARLY_STEPS_H_
#define TENON_NET_CLUSTER_EARLY_STEPS_H_

#include <cstdint>
#include <map>
#include <mutex>

#include "tenon/ext/draft/transport.h"

namespace tenon::cluster {

// Any thread; a sender's values come on one at a time.
class EarlySteps {
 public:
  static constexpr uint64_t kMost = 4096;  // by way of one connection

  uint64_t Of(tenon_peer* sender) const {
    const std::lock_guard lock(mutex_);
    const auto at = counts_.find(sender);
    return at == counts_.end() ? 0 : at->second;
  }
  void Add(tenon_peer* sender) {
    const std::lock_guard lock(mutex_);
    ++counts_[sender];
  }
  // One has begun, or never will.
  void Remove(tenon_peer* sender) {
    const std::lock_guard lock(mutex_);
    const auto at = counts_.find(sender);
    if (at != counts_.end() && --at->second == 0) counts_.erase(at);
  }

 private:
  mutable std::mutex mutex_;
  std::map<tenon_peer*, uint64_t> counts_;
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_EARLY_STEPS_H_
