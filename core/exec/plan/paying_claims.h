// SPDX-License-Identifier: Apache-2.0
// PayingClaims: which of the sets of nodes that compilers take make the step shorter, as predicted.
//
// A set begins when the last of its inputs is there, and gives all of its values at its end: nodes in it wait for what
// they do not read, and others wait for what the set made long ago. Against that stand the launches that it saves. So a
// step is simulated as straight code runs it: the host submits in the plan's order and waits where one of its own
// kernels reads what a device makes; queues run what they have in order, copies on queues of their own. A set takes
// what its nodes do, less all launches but one. Sets are cut, where that makes the step shorter, into pieces that
// follow each other; a piece of one kernel is none. The prediction is that of the placement; without one, and around
// loops and conditionals, sets stay as they are.
#ifndef TENON_CORE_EXEC_PLAN_PAYING_CLAIMS_H_
#define TENON_CORE_EXEC_PLAN_PAYING_CLAIMS_H_

#include <optional>
#include <vector>

#include "core/exec/plan/claims.h"

namespace tenon::exec {

struct ClaimTimes {
  double by_nodes = 0, whole = 0,
         seconds = 0;  // of the step: without any set, with all as they were claimed, and as they are kept
  std::vector<std::vector<graph::NodeId>> pieces;   // that are kept
};

// Nothing where nothing is predicted.
std::optional<ClaimTimes> FindPayingClaims(const Plan& plan, const Claims& claims);

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_PLAN_PAYING_CLAIMS_H_
