// SPDX-License-Identifier: Apache-2.0
// OpenRuns: the steps of a master that are under way, by their numbers, so that those can be given up that a loss
// concerns.
#ifndef TENON_NET_CLUSTER_OPEN_RUNS_H_
#define TENON_NET_CLUSTER_OPEN_RUNS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

#include "core/base/status.h"

namespace tenon::cluster {

// A step that is under way.
class OpenRun {
 public:
  virtual ~OpenRun() = default;
  // Whether it has a part at the task.
  virtual bool Uses(size_t task) const = 0;
  // Cancels what is still open of it; the first reason is the step's answer. Waits for nobody.
  virtual void GiveUp(Status why) = 0;
};

// Any thread. A run is listed from Add to Remove, and lives so long: the lock is held while it is given up.
class OpenRuns {
 public:
  // Of each step its own, from 1.
  uint64_t NewNumber() { return next_.fetch_add(1); }
  void Add(uint64_t number, OpenRun* run);
  void Remove(uint64_t number);
  // One step, if it is under way.
  void GiveUpStep(uint64_t number, const Status& why);
  // Those that have a part at both tasks.
  void GiveUpBetween(size_t task, size_t peer, const Status& why);
  void GiveUpAll(const Status& why);

 private:
  std::atomic<uint64_t> next_{1};
  std::mutex mutex_;
  std::map<uint64_t, OpenRun*> runs_;
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_OPEN_RUNS_H_
