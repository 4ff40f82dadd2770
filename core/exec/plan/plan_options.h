// SPDX-License-Identifier: Apache-2.0
// PlanOptions: how a plan is made; PartInfo: what the plan of a part is told besides.
#ifndef TENON_CORE_EXEC_PLAN_PLAN_OPTIONS_H_
#define TENON_CORE_EXEC_PLAN_PLAN_OPTIONS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/id.h"
#include "core/exec/exchange/transfer_precision.h"
#include "core/graph/edge.h"
#include "core/partition/channel_id.h"

namespace tenon::exec {

struct StepTimes;
using partition::ChannelId;

// What a part of a partitioned graph knows of its sends and receives.
struct PartInfo {
  graph::NodeMap<ChannelId> channels;  // of sends and receives; none: it is another
  IdVector<ChannelId, bool> may_be_dead;
  graph::NodeMap<bool> nodes_may_be_dead;
  int32_t device = 0;  // of the environment's, that the part is for
  TransferPrecision precision = TransferPrecision::kFull;
};

struct PlanOptions {
  bool force_dynamic = false;
  bool fold = true;
  uint32_t schedule_seed = 0;
  bool compile = true;                                              // devices' compilers may take whole sets of nodes
  TransferPrecision transfer_precision = TransferPrecision::kFull;  // of what goes from part to part
  bool early_transfers = false;  // values go to devices as soon as they are there; else when they are needed
  bool turns_while_entered = false;  // a loop turns on, without a bound, while something is yet to enter it: who waits
                                     // for its exits may not need that
  std::vector<int32_t> feed_memories,
      fetch_memories;  // where each lies: 0 the host's, else the number of a device with queues; empty: 0
  std::shared_ptr<const StepTimes> times;  // nullptr: nothing is known
  std::shared_ptr<const std::map<std::string, std::string, std::less<>>>
      notes;  // what is told of nodes, by their names, when the step is explained; nullptr: nothing
  std::shared_ptr<const PartInfo> part;    // nullptr: the plan is of a whole graph, without sends and receives
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_PLAN_PLAN_OPTIONS_H_
