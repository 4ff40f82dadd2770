// SPDX-License-Identifier: Apache-2.0
// UnsettledParts: parts of steps that were given up, which may still be done at their tasks.
//
// A call that is cancelled ends at the client at once, whatever its task still does. So a later step that shares state
// with it first asks those tasks whether it is over ("settle"), so that nothing of it is done after what begins then.
#ifndef TENON_NET_CLUSTER_UNSETTLED_PARTS_H_
#define TENON_NET_CLUSTER_UNSETTLED_PARTS_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "core/base/cancellation.h"
#include "net/cluster/step_state.h"
#include "net/cluster/task_table.h"

namespace tenon::cluster {

// Any thread. The lock guards the list, and is not held while one waits; that of the tasks is taken under it.
class UnsettledParts {
 public:
  struct Part {
    size_t task;
    uint32_t part;
    uint64_t step;
    std::shared_ptr<const StepState> state;
    bool operator==(const Part&) const = default;
  };
  // The tasks of the session of that number, which outlive this.
  UnsettledParts(uint64_t session, TaskTable* tasks) : session_(session), tasks_(tasks) {}

  void Add(const std::vector<Part>& parts);
  // Waits until those that may touch `state` have ended at their tasks; or until the cancellation (nullptr: none) or
  // the deadline (0: none).
  Status Settle(const StepState& state, Cancellation* cancellation, uint64_t deadline_ns = 0);

 private:
  // At a lost task nothing is done that a step of this session could meet: its parts are forgotten.
  std::vector<Part> SharedWith(const StepState& state);
  Status SettleOne(const Part& left, Cancellation* cancellation, uint64_t deadline_ns);

  const uint64_t session_;
  TaskTable* const tasks_;
  std::mutex mutex_;
  std::vector<Part> parts_;
  std::atomic<bool> any_{false};
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_UNSETTLED_PARTS_H_
