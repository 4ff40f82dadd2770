// SPDX-License-Identifier: Apache-2.0
// ClusterParts: a session's step as its tasks have it: one part a task.
#ifndef TENON_NET_CLUSTER_CLUSTER_PARTS_H_
#define TENON_NET_CLUSTER_CLUSTER_PARTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "core/exec/parts/channel_shapes.h"
#include "net/cluster/cluster_session.h"
#include "net/cluster/step_state.h"

namespace tenon::cluster {

// Fixed once the plan is made (cluster_plan.h), whose they are.
struct ClusterParts {
  struct Part {
    size_t task = 0;
    uint32_t number = 0;
    std::vector<int32_t> feed_numbers, fetch_numbers, channels;  // channels: that it receives
    std::vector<int32_t> fed,
        given;  // of a step in goes, by the caller's numbers: channels that its callers feed, and fetch
    std::shared_ptr<const StepState> state;
  };
  ClusterSession* session = nullptr;
  std::vector<Part> all;
  StepState state;  // of all parts
  size_t fetch_count = 0;
  // nullptr: steps go in several goes, and what will come is not known
  std::unique_ptr<exec::ChannelShapes> shapes;
  // Of steps in goes: callers' channels come after those between tasks.
  int32_t first_of_callers = 0;
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_CLUSTER_PARTS_H_
