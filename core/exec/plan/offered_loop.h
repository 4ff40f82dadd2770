// SPDX-License-Identifier: Apache-2.0
// OfferedLoop: a while loop as compilers see it (tenon_compile_loop): what it carries and what its nodes read, without
// what only steers.
#ifndef TENON_CORE_EXEC_PLAN_OFFERED_LOOP_H_
#define TENON_CORE_EXEC_PLAN_OFFERED_LOOP_H_

#include <map>
#include <utility>
#include <vector>

#include "core/graph/edge.h"

namespace tenon::exec {

struct OfferedLoop {
  struct Variable {
    graph::Edge initial, current, next, result;  // result.node: none where nobody reads it
  };
  std::vector<Variable> variables;
  graph::Edge condition;
  std::vector<graph::NodeId> nodes;  // those that compute the condition first
  size_t condition_nodes = 0;
  std::map<std::pair<graph::NodeId, int32_t>, graph::Edge> sources;  // of nodes' inputs
  std::vector<graph::Edge> inputs;   // the initial values, then what else comes from outside, once
  std::vector<graph::Edge> outputs;  // results that somebody reads
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_PLAN_OFFERED_LOOP_H_
