// SPDX-License-Identifier: Apache-2.0
// FrozenVariables: variables as constants, in the steps of a session that is frozen (Session::Freeze).
//
// Works on the graph of one step whose calls are inlined. What is read of a variable becomes a constant of the value
// that it has when a step first asks for it, and all that follows is what it is for constants: folded, cast, turned and
// packed once. Handles are followed through identities, the entries of loops and switches; who reads what is none of
// these, or a variable without a value, reads it as before. So do kernels that take handles (ResourceGather). A step
// that writes to a variable is refused, and steps that were prepared before the session was frozen are as they were:
// what they write is seen by each other alone. The values stay as long as the session: in the buffers of resource
// variables that are in the host's memory, which an update then leaves alone; others are copied there. Thread-safe.
#ifndef TENON_CORE_SESSION_FROZEN_VARIABLES_H_
#define TENON_CORE_SESSION_FROZEN_VARIABLES_H_

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/optimize/optimize.h"
#include "core/tensor/tensor.h"

namespace tenon::session {

class FrozenVariables {
 public:
  // Runs a graph of nothing but variables and reads, and gives what is fetched.
  using Run = std::function<Result<std::vector<Tensor>>(graph::Graph graph, const std::vector<graph::Edge>& fetches)>;

  // FAILED_PRECONDITION names a node that writes to a variable. The graph may be another afterwards, and the request is
  // of that.
  Status Replace(graph::Graph* graph, optimize::Request* request, const Run& run);

 private:
  struct Variable {
    graph::Edge edge;  // its handle, or the reference
    DType dtype;
  };
  // One value each; an empty tensor where the variable has none.
  Result<std::vector<Tensor>> ValuesOf(const graph::Graph& graph, const std::vector<Variable>& variables,
                                       const Run& run);

  struct Known {
    const graph::OpDef* op;
    graph::AttrMap attrs;
    Tensor value;
  };
  // The value of the variable if it is known, else `first`, if that is not NULL, which it has from now on. nullptr:
  // neither. With the mutex held.
  const Tensor* Find(const graph::Graph& graph, const Variable& variable, const Tensor* first);

  std::mutex mutex_;
  std::multimap<std::string, Known>
      known_;  // by the edge's name: steps may call different nodes of inlined calls alike
};

}  // namespace tenon::session

#endif  // TENON_CORE_SESSION_FROZEN_VARIABLES_H_
