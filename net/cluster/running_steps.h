// SPDX-License-Identifier: Apache-2.0
// RunningSteps: the steps of a worker that run, by the calls that wait for them.
#ifndef TENON_NET_CLUSTER_RUNNING_STEPS_H_
#define TENON_NET_CLUSTER_RUNNING_STEPS_H_

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "net/cluster/metrics.h"
#include "net/cluster/peers.h"
#include "net/cluster/worker_step.h"

namespace tenon::cluster {

// Any thread. The lock guards the two tables.
class RunningSteps {
 public:
  // Of a call that is being taken in, for as long as it lives: that it is cancelled meanwhile is not missed.
  class Coming {
   public:
    Coming(RunningSteps* steps, tenon_reply* call) : steps_(steps), call_(call) {
      const std::lock_guard lock(steps_->mutex_);
      steps_->coming_.emplace(call_, false);
    }
    ~Coming() {
      const std::lock_guard lock(steps_->mutex_);
      steps_->coming_.erase(call_);
    }
    Coming(const Coming&) = delete;
    Coming& operator=(const Coming&) = delete;

   private:
    RunningSteps* const steps_;
    tenon_reply* const call_;
  };

  // It waits for a thread until it is taken up. Whether its call was cancelled before.
  bool Add(tenon_reply* call, std::shared_ptr<WorkerStep> step);
  void TakeUp() { --queued_; }
  void Remove(tenon_reply* call);
  // The step of a call that is cancelled; nullptr: there is none, or not yet.
  std::shared_ptr<WorkerStep> Cancelled(tenon_reply* call);

  // Peers of the steps that have lasted a while, by address.
  std::map<std::string, Peers::Busy> BusyPeers(uint64_t now_ns) const;
  void Count(WorkerState* out) const;
  // For people; empty: none.
  std::string Say() const;

 private:
  mutable std::mutex mutex_;
  std::map<tenon_reply*, std::shared_ptr<WorkerStep>> running_;
  std::map<tenon_reply*, bool> coming_;  // whether they were cancelled
  std::atomic<uint64_t> queued_{0};      // of running_, those that wait for a thread
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_RUNNING_STEPS_H_
