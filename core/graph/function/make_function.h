// SPDX-License-Identifier: Apache-2.0
// A part of a graph as a function of a library: what inlining undoes.
#ifndef TENON_CORE_GRAPH_FUNCTION_MAKE_FUNCTION_H_
#define TENON_CORE_GRAPH_FUNCTION_MAKE_FUNCTION_H_

#include <string>
#include <vector>

#include "core/graph/function/function_def.h"
#include "core/graph/graph.h"

namespace tenon::graph {

struct FunctionSource {
  struct NamedEdge {
    std::string name;
    Edge edge;
  };
  struct NamedNode {
    std::string name;
    NodeId node;
  };
  std::string name, description;
  std::vector<NamedEdge> inputs;  // become arguments: what is before them is no part of the function
  std::vector<NamedEdge> outputs;
  std::vector<NamedNode> control_outputs;  // run with each call, whoever reads what
  AttrMap labels;
};

// The nodes that the outputs and control outputs need, up to the inputs, as a function's body in GraphDef's syntax,
// which any reader of it takes; the graph stays as it is. INVALID_ARGUMENT names what cannot stand in a function: a
// name that is none or stands twice, a reference, a value that somebody would have to feed.
Result<FunctionDef> MakeFunction(const Graph& graph, FunctionSource source);

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_FUNCTION_MAKE_FUNCTION_H_
