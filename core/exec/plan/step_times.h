// SPDX-License-Identifier: Apache-2.0
// StepTimes: what a step is predicted to take, node by node; what the placement found, for the order of transfers.
#ifndef TENON_CORE_EXEC_PLAN_STEP_TIMES_H_
#define TENON_CORE_EXEC_PLAN_STEP_TIMES_H_

#include <map>
#include <utility>
#include <vector>

#include "core/graph/edge.h"

namespace tenon::exec {

struct StepTimes {
  struct Crossing {
    double seconds = 0;
    double bytes = 0;
  };
  graph::NodeMap<double> node_seconds;  // of the graph that the plan is made of
  // From the step's start. Empty where no device has queues, or a kernel of a device with queues neither was measured
  // nor says what it takes: guesses are good enough to place by, and not to give up what compilers and captures save.
  graph::NodeMap<double> node_starts;
  // Values that go to a memory (0: the host's, else the number of a device with queues).
  std::map<std::pair<graph::Edge, int32_t>, Crossing> crossings;

  double SecondsOf(graph::NodeId node) const { return node_seconds.Get(node, 0); }
  Crossing Find(graph::Edge value, int32_t memory) const {
    const auto at = crossings.find({value, memory});
    return at == crossings.end() ? Crossing{} : at->second;
  }
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_PLAN_STEP_TIMES_H_
