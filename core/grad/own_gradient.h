// SPDX-License-Identifier: Apache-2.0
// Gradients that the graph itself brings, as functions: of functions (FunctionDef::gradient), of ops, and of nodes that
// ask for one (the library's registered_gradients). The gradient of such a node is a call of that function, and a call
// stays one.
#ifndef TENON_CORE_GRAD_OWN_GRADIENT_H_
#define TENON_CORE_GRAD_OWN_GRADIENT_H_

#include <map>
#include <string>
#include <vector>

#include "core/graph/builder.h"
#include "core/graph/graph.h"

namespace tenon::grad {

class OwnGradients {
 public:
  // The graph outlives it, and may grow.
  explicit OwnGradients(const graph::Graph* graph);

  // The function that is the node's gradient: which is registered for what its attribute "_gradient_op_type" says, or
  // for its op, or which the function that it calls names. Empty: none. UNIMPLEMENTED: it asks for one that the graph
  // does not bring. (What a call asks for so is its own function's gradient where nothing else is registered.)
  Result<std::string> Of(const graph::Node& node) const;

 private:
  std::string OfFunction(const graph::Node& call) const;

  const graph::Graph& graph_;
  std::map<std::string, std::string, std::less<>> registered_;  // functions by what they are registered for
};

// A call of such a function, with these inputs: where the node runs, when it is a call whose first input says where
// (TENON_OP_REMOTE). It stands first in `inputs` too.
Result<graph::NodeId> AddGradientCall(graph::Builder* builder, const graph::Node& node, const std::string& gradient,
                                      std::vector<graph::Edge> inputs);

}  // namespace tenon::grad

#endif  // TENON_CORE_GRAD_OWN_GRADIENT_H_
