// SPDX-License-Identifier: Apache-2.0
// What the functions of train.h that add nodes share: edges that are checked, a call whose failure is its own.
#ifndef TENON_SDK_MODEL_C_BUILDING_H_
#define TENON_SDK_MODEL_C_BUILDING_H_

#include <string>
#include <utility>
#include <vector>

#include "sdk/app/model_c/objects.h"
#include "tenon/train.h"

namespace tenon::model_c {

using host::DType, host::Operation, host::Output;

inline Status NoSuch(const std::string& what, tenon_output output) {
  return Status(Code::kInvalidArgument, what + " is output " + std::to_string(output.index) + " of node " +
                                            std::to_string(output.node) + ", which the graph does not have");
}
inline Result<Output> ReadEdge(tenon_app_graph* graph, tenon_output output, const std::string& name) {
  if (output.node < 0 || output.node >= tenon_graph_node_count(graph) || output.index < 0 ||
      output.index >= tenon_graph_node_output_count(graph, output.node))
    return NoSuch("'" + name + "'", output);
  return Output(graph, output.node, output.index);
}
inline Result<std::vector<Output>> ReadEdges(tenon_app_graph* graph, const tenon_output* outputs, uint64_t count,
                                             const char* name) {
  TENON_TRY(GivenList(outputs, count, name));
  std::vector<Output> edges;
  for (uint64_t i = 0; i < count; ++i) {
    TENON_TRY_ASSIGN(Output edge, ReadEdge(graph, outputs[i], std::string(name) + "[" + std::to_string(i) + "]"));
    edges.push_back(std::move(edge));
  }
  return edges;
}
// One of node -1 is none.
inline Result<std::vector<Output>> ReadGradients(tenon_app_graph* graph, const tenon_output* gradients,
                                                 uint64_t count) {
  TENON_CHECK(List(gradients, count));
  std::vector<Output> edges;
  for (uint64_t i = 0; i < count; ++i) {
    Result<Output> edge = gradients[i].node == -1
                              ? Result<Output>(Output())
                              : ReadEdge(graph, gradients[i], "gradients[" + std::to_string(i) + "]");
    TENON_TRY(edge.status());
    edges.push_back(*std::move(edge));
  }
  return edges;
}
// Of an array of C's for edges: as many as there are.
inline Status CheckRoom(const std::vector<Output>& edges, const tenon_output* out, uint64_t count, const char* what) {
  TENON_TRY(GivenList(out, count, what));
  if (edges.size() == count) return Status();
  return Status(Code::kInvalidArgument, "there is room for " + std::to_string(count) + " in '" + what +
                                            "', which has " + std::to_string(edges.size()));
}
// To C: all, or nothing.
inline Status GiveEdges(const std::vector<Output>& edges, tenon_output* out, uint64_t count, const char* what) {
  TENON_TRY(CheckRoom(edges, out, count, what));
  for (size_t i = 0; i < edges.size(); ++i) out[i] = edges[i].c_output();
  return Status();
}

// Adds nodes to a graph of C's that is lent to C++; a failure is the call's own, and the graph goes on.
template <typename Function>
Status BuildIn(host::Graph& graph, Function function) {
  const Status status = function();
  const Status failure = graph.TakeStatus();
  return status.ok() ? failure : status;
}
template <typename Function>
tenon_status* Build(tenon_variables* variables, Function function) {
  return Guard([&]() -> Status {
    TENON_CHECK(variables);
    return BuildIn(variables->graph, function);
  });
}
// Of a graph as it is now: with the scope and the control inputs that it was given last. function: of it.
template <typename Function>
tenon_status* Build(tenon_app_graph* graph, Function function) {
  return Guard([&]() -> Status {
    TENON_CHECK(graph);
    host::Graph lent = host::Graph::Borrow(graph);
    return BuildIn(lent, [&] { return function(lent); });
  });
}

// Borrows from the variable.
tenon_variable_info InfoOf(const train::Variable& variable);

}  // namespace tenon::model_c

#endif  // TENON_SDK_MODEL_C_BUILDING_H_
