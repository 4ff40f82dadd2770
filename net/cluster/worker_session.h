// SPDX-License-Identifier: Apache-2.0
// WorkerSession: a master's session at a worker: the parts that it registered, their steps, and what it may not know
// yet.
#ifndef TENON_NET_CLUSTER_WORKER_SESSION_H_
#define TENON_NET_CLUSTER_WORKER_SESSION_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/session/session.h"
#include "net/cluster/packet.h"
#include "net/cluster/worker_part.h"

namespace tenon::cluster {

class WorkerStep;

// The worker's mutex guards it, but for `session`.
class WorkerSession {
 public:
  uint64_t id = 0;
  std::string owner, owner_secret;
  tenon_peer* master = nullptr;
  uint64_t lease_ns = 0, heard_ns = 0;
  uint64_t silence_ns = 0;  // the master's patience with silent tasks; 0: it did not say
  std::shared_ptr<session::Session> session;
  std::map<uint32_t, std::shared_ptr<const WorkerPart>> parts;
  uint32_t last_part = 0;  // the highest number that was registered
  std::map<std::pair<uint32_t, uint64_t>, std::shared_ptr<WorkerStep>> steps;  // by part and step
  size_t early_steps = 0;
  size_t in_goes = 0;  // steps of parts that stand still between calls, which have begun
  Status ended;  // why, once it has

  // A loss that its master may not know of. step: 0: of none in particular.
  void Note(const Status& why, uint64_t step, const std::string& peer = "");
  // What the master knows is forgotten; the rest goes into the answer.
  void TellLosses(uint64_t known, PingReply* answer);
  // The step is no longer one of its part's, whatever comes for it.
  void End(uint32_t part, uint64_t step);
  bool IsOver(uint32_t part, uint64_t step) const;
  // Whether the master runs the part no more.
  bool IsDropped(uint32_t part) const { return part <= last_part && !parts.contains(part); }
  // The part, which goes when the caller lets go of it; nullptr: there is none of that number. Its steps that have not
  // ended yet keep it.
  std::shared_ptr<const WorkerPart> Drop(uint32_t part);
  // Whether it exchanges values with the task at the address.
  bool HasPeer(const std::string& address) const;

 private:
  std::map<uint32_t, std::set<uint64_t>> over_;  // steps of each part that have ended, the latest
  std::vector<Loss> losses_;
  uint64_t losses_before_ = 0;  // that it knows
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_WORKER_SESSION_H_
