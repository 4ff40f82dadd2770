// SPDX-License-Identifier: Apache-2.0
// Between: which nodes lie on a path from the xs to the ys, over stacks too.
#ifndef TENON_CORE_GRAD_BETWEEN_H_
#define TENON_CORE_GRAD_BETWEEN_H_

#include <vector>

#include "core/grad/stacks.h"

namespace tenon::grad {

class Between {
 public:
  Between(const graph::Graph& graph, const Stacks& stacks, const std::vector<graph::Edge>& ys,
          const std::vector<graph::Edge>& xs);
  bool Has(graph::NodeId node) const { return nodes_[node]; }
  // The nodes that the graph had then.
  IdRange<graph::NodeId> ids() const { return nodes_.ids(); }

 private:
  graph::NodeMap<bool> nodes_;
};

}  // namespace tenon::grad

#endif  // TENON_CORE_GRAD_BETWEEN_H_
