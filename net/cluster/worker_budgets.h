// SPDX-License-Identifier: Apache-2.0
// WorkerBudgets: how much memory a worker's sessions may take together, in the host's memory and in each device's.
#ifndef TENON_NET_CLUSTER_WORKER_BUDGETS_H_
#define TENON_NET_CLUSTER_WORKER_BUDGETS_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/session/runtime.h"
#include "net/cluster/metrics.h"

namespace tenon::cluster {

// Fixed; what is in use has its own lock.
class WorkerBudgets {
 public:
  // limit: bytes of each; 0: none. task: whose, for errors.
  WorkerBudgets(session::Runtime* runtime, uint64_t limit, std::string_view task);

  // nullptr: the device's memory is not counted.
  std::shared_ptr<MemoryBudget> Of(const exec::Device& device) const;
  uint64_t in_use() const;
  // The host's first.
  const std::vector<WorkerState::Memory>& all() const { return memories_; }

 private:
  std::vector<WorkerState::Memory> memories_;
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_WORKER_BUDGETS_H_
