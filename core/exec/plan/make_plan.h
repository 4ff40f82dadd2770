// SPDX-License-Identifier: Apache-2.0
// Makes a plan whole: the order of its transfers and receives, and what devices' compilers take of it.
#ifndef TENON_CORE_EXEC_PLAN_MAKE_PLAN_H_
#define TENON_CORE_EXEC_PLAN_MAKE_PLAN_H_

#include <memory>
#include <vector>

#include "core/exec/plan/plan.h"

namespace tenon::exec {

// `graph` holds just the nodes to run. Feeds replace edges: their producers need not be in the graph's order.
// A node's `device` is the full name of one of the environment's devices, or nothing. The store outlives the plan.
Result<std::shared_ptr<const Plan>> MakePlan(graph::Graph graph, std::vector<graph::Edge> feeds,
                                             std::vector<graph::Edge> fetches, std::vector<graph::NodeId> targets,
                                             const Environment& env, KernelStore* store, Plan::Options options);

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_PLAN_MAKE_PLAN_H_
