// SPDX-License-Identifier: Apache-2.0
// The body of a library function, built into a graph: one call of it.
#ifndef TENON_CORE_GRAPH_FUNCTION_FUNCTION_BODY_H_
#define TENON_CORE_GRAPH_FUNCTION_FUNCTION_BODY_H_

#include <string>
#include <vector>

#include "core/graph/function/function_def.h"
#include "core/graph/edge.h"
#include "core/graph/op_def.h"

namespace tenon::graph {

struct CallSite {
  std::string what;  // calls it, for errors
  std::string name;        // that the body's nodes stand below
  std::string state_name;  // the call's StateName, or what else tells it apart from all calls
  std::string device;  // of the nodes that name none
  std::vector<Edge> inputs;
  std::vector<DType> output_types;
  AttrMap attrs;  // that bind the function's own
  std::vector<NodeId> controls;  // what the body waits for:
  bool sources_wait =
      false;  // only those of its nodes that have no input, or call functions, in which there may be such;
  std::vector<NodeId> early;  // and those with effects, and where branches and loops begin, that depend on these inputs
                              // alone, which do not wait themselves
};

// The types of the values that a function takes and gives, with its attributes bound; defaults are filled in.
struct FunctionSignature {
  std::vector<DType> arguments, results;
};
// INVALID_ARGUMENT names the function and what is not bound.
Result<FunctionSignature> SignatureOf(const FunctionDef& function, AttrMap bound);

// results: the edges that are the call's outputs. effects: the nodes that must have run when the call has. On failure
// nodes may have been added.
Status AddFunctionBody(Graph* graph, const CallSite& site, const FunctionDef& function, std::vector<Edge>* results,
                       std::vector<NodeId>* effects);

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_FUNCTION_FUNCTION_BODY_H_
