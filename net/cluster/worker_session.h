// SPDX-License-Identifier: Apache-2.0
// WorkerSession: a master's session at a worker, as its master opened it.
#ifndef TENON_NET_CLUSTER_WORKER_SESSION_H_
#define TENON_NET_CLUSTER_WORKER_SESSION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "core/base/clock.h"
#include "core/session/session.h"
#include "net/cluster/session_losses.h"
#include "tenon/ext/draft/transport.h"

namespace tenon::cluster {

// Fixed once it is open, but for what it has heard and lost. Its parts and steps are session_parts.h's; each step holds
// it.
struct WorkerSession {
  uint64_t id = 0;
  std::string owner, owner_secret;
  tenon_peer* master = nullptr;
  uint64_t lease_ns = 0;    // 0: none
  uint64_t silence_ns = 0;  // the master's patience with silent tasks; 0: it did not say
  std::shared_ptr<session::Session> session;
  std::atomic<uint64_t> heard_ns{NowNs()};
  SessionLosses losses;
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_WORKER_SESSION_H_
