// SPDX-License-Identifier: Apache-2.0
// Borders: what enters a set of nodes that run as one operation, and what leaves it.
#ifndef TENON_CORE_EXEC_LOWER_BORDERS_H_
#define TENON_CORE_EXEC_LOWER_BORDERS_H_

#include <functional>
#include <utility>
#include <vector>

#include "core/exec/lower/facts.h"

namespace tenon::exec {

struct Border {
  std::vector<graph::Edge> in, out;
  bool shapes_known = true;
};

class Borders {
 public:
  // Both outlive it.
  Borders(const Plan* plan, const Facts* facts) : plan_(*plan), graph_(plan->graph()), facts_(*facts) {}

  Border Of(const std::vector<graph::NodeId>& nodes);

 private:
  bool IsReadOutside(graph::Edge edge, const std::function<bool(graph::NodeId)>& inside);

  const Plan& plan_;
  const graph::Graph& graph_;
  const Facts& facts_;
  graph::NodeMap<std::vector<std::pair<int32_t, graph::NodeId>>> readers_;  // of each node: output, reader
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_LOWER_BORDERS_H_
