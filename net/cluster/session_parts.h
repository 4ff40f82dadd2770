// SPDX-License-Identifier: Apache-2.0
// SessionParts: the parts that a master registered in its session at a worker, and their steps.
//
// A step's values from other parts may come before the step does: whatever comes first makes the step's meeting place.
#ifndef TENON_NET_CLUSTER_SESSION_PARTS_H_
#define TENON_NET_CLUSTER_SESSION_PARTS_H_

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "net/cluster/early_steps.h"
#include "net/cluster/metrics.h"
#include "net/cluster/packet.h"
#include "net/cluster/worker_session.h"
#include "net/cluster/worker_step.h"

namespace tenon::cluster {

// Any thread. The lock guards the parts, the steps, and of each step what is said there; nothing is cancelled, run or
// answered under it.
class SessionParts {
 public:
  using Steps = std::vector<std::shared_ptr<WorkerStep>>;
  // Where a value goes.
  struct Meeting {
    std::shared_ptr<const WorkerPart> part;  // nullptr: there is no such part any more
    std::shared_ptr<WorkerStep> step;        // nullptr: it is over
  };

  // Services and `early` are the worker's, and outlive it.
  SessionParts(std::shared_ptr<WorkerSession> of, const StepServices* services, EarlySteps* early)
      : session(std::move(of)), services_(services), early_(early) {}
  SessionParts(const SessionParts&) = delete;
  SessionParts& operator=(const SessionParts&) = delete;

  const std::shared_ptr<WorkerSession> session;

  Status Add(std::shared_ptr<const WorkerPart> part);
  // Those parts, which go when the caller lets go of them. Their steps that have not ended yet keep them.
  std::vector<std::shared_ptr<const WorkerPart>> Drop(const google::protobuf::RepeatedField<uint32_t>& numbers);

  // For a value that `sender` brings, maybe before its step: of these there are so many, and no more.
  Result<Meeting> Meet(const DataKey& key, tenon_peer* sender);
  // The step runs from now on.
  Result<std::shared_ptr<WorkerStep>> Begin(uint32_t part, uint64_t step);
  // It is over here: who is to be told.
  std::vector<Reply> End(WorkerStep* step);
  // Whether the step is over, or never will begin from now on; otherwise the reply is given when it is.
  bool Settle(uint32_t part, uint64_t step, const Reply& reply);
  // A step that runs; nullptr: it is over.
  Result<std::shared_ptr<WorkerStep>> Running(uint32_t part, uint64_t step) const;

  // The steps that exchange values with the task at the address. noted: what was sent to it may be lost, also of steps
  // that are over.
  Steps LosePeer(const std::string& address, const Status& why, bool noted);
  // The steps, which are to be given up: none begins from now on.
  Steps Close(const Status& why);
  // Nothing of it runs any more.
  void Clear();
  // What there is, for metrics. The steps, which know what waits in them.
  Steps Count(WorkerState* out) const;

 private:
  // The step's meeting place; FAILED_PRECONDITION when the step is over. This and all below under the lock.
  Result<std::shared_ptr<WorkerStep>> StepOf(uint32_t part, uint64_t step);
  // It has begun, or never will.
  void NoLongerEarly(WorkerStep* step);
  // The step is no longer one of its part's, whatever comes for it.
  void NoteOver(uint32_t part, uint64_t step);
  bool IsOver(uint32_t part, uint64_t step) const;
  // Whether the master runs the part no more.
  bool IsDropped(uint32_t part) const { return part <= last_part_ && !parts_.contains(part); }
  // Whether it exchanges values with the task at the address.
  bool HasPeer(const std::string& address) const;

  const StepServices* const services_;
  EarlySteps* const early_;
  mutable std::mutex mutex_;
  std::map<uint32_t, std::shared_ptr<const WorkerPart>> parts_;
  uint32_t last_part_ = 0;  // the highest number that was registered
  std::map<std::pair<uint32_t, uint64_t>, std::shared_ptr<WorkerStep>> steps_;  // by part and step
  std::map<uint32_t, std::set<uint64_t>> over_;  // steps of each part that have ended, the latest
  size_t early_steps_ = 0;
  size_t in_goes_ = 0;  // steps of parts that stand still between calls, which have begun
  Status closed_;       // why, once it is
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_SESSION_PARTS_H_
