// SPDX-License-Identifier: Apache-2.0
// When a variable's value is read that others write to by its reference.
//
// A value that is written in place (device/resources.h) shows to whoever reads it what was last written, also when it
// was passed on before that. One that is not written in place is read as late as it is used, so that both kinds show
// the same: what only passes the value on then passes on the reference. Where a merge, a next turn, a branch's
// predicate or a view takes it, it is read there.
#ifndef TENON_CORE_EXEC_PLAN_LATE_READS_H_
#define TENON_CORE_EXEC_PLAN_LATE_READS_H_

#include <functional>
#include <vector>

#include "core/graph/graph.h"

namespace tenon::exec {

struct LateReads {
  std::function<bool(graph::Edge)> is_fed;
  std::function<bool(const graph::Node&)> runs_kernel;
  // Whether what the node passes on lies where it takes it.
  std::function<bool(const graph::Node&, graph::Edge)> stays;
};

// Makes references of the values that nodes in `order` (topological) pass on. A step in which nobody writes by a
// reference is left as it is.
void ReadWhenUsed(graph::Graph* graph, const std::vector<graph::NodeId>& order, const LateReads& plan);

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_PLAN_LATE_READS_H_
