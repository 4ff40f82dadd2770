// SPDX-License-Identifier: Apache-2.0
// TransferOrder: where the transfers of a plan stand in its order.
//
// What comes from a device goes as soon as it is there: the host may wait for it, and a device sends one value after
// the other. What goes from the host to a device is put off until it is needed (partition/schedule_receives.h), so that
// its memory serves others until then; receives of a part likewise. Straight code follows the order; the dynamic
// executor, which has none, lets a transfer or receive wait for the node before it on its device.
#ifndef TENON_CORE_EXEC_PLAN_TRANSFER_ORDER_H_
#define TENON_CORE_EXEC_PLAN_TRANSFER_ORDER_H_

#include <unordered_map>
#include <vector>

#include "core/graph/edge.h"

#include "core/base/status.h"

namespace tenon::exec {

class Plan;

struct TransferOrder {
  std::vector<graph::NodeId> order;                    // of all nodes that may run
  std::unordered_map<graph::NodeId, graph::NodeId>
      waits;                                 // transfers and receives: the node that runs before, which is never dead
  double earliest_seconds = 0, seconds = 0;  // of the step, as predicted: with all transfers as early as can be, and so
};

// The plan's order is without the nodes from `first_added` on: transfers, and constants repeated for a device.
Result<TransferOrder> OrderTransfers(const Plan& plan, graph::NodeId first_added);

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_PLAN_TRANSFER_ORDER_H_
