// SPDX-License-Identifier: Apache-2.0
// SessionLosses: values of a session that were lost, of which its master may not know yet.
#ifndef TENON_NET_CLUSTER_SESSION_LOSSES_H_
#define TENON_NET_CLUSTER_SESSION_LOSSES_H_

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "net/cluster/cluster.pb.h"

namespace tenon::cluster {

// Any thread. Losses are numbered from 0, in the order in which they are noted.
class SessionLosses {
 public:
  // step: 0: of none in particular.
  void Note(const Status& why, uint64_t step, const std::string& peer = "") {
    const std::lock_guard lock(mutex_);
    Loss& loss = losses_.emplace_back();
    loss.set_code(static_cast<uint32_t>(why.code()));
    loss.set_text(std::string(why.message()));
    loss.set_step(step);
    loss.set_peer(peer);
  }
  // The first `known` are forgotten; the rest goes into the answer.
  void Tell(uint64_t known, PingReply* answer) {
    const std::lock_guard lock(mutex_);
    const uint64_t forgotten = std::min<uint64_t>(known - std::min(known, before_), losses_.size());
    losses_.erase(losses_.begin(), losses_.begin() + static_cast<std::ptrdiff_t>(forgotten));
    before_ += forgotten;
    for (const Loss& loss : losses_) *answer->add_losses() = loss;
    answer->set_losses_count(before_ + losses_.size());
  }

 private:
  std::mutex mutex_;
  std::vector<Loss> losses_;
  uint64_t before_ = 0;  // that it knows
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_SESSION_LOSSES_H_
