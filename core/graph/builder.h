// SPDX-License-Identifier: Apache-2.0
// Builder: adds nodes to a graph for the C ABI's tenon_graph_builder and for the core's own passes.
//
// Knows a scope (a prefix for names) and control inputs that every new node gets. Infers shapes as the graph grows.
#ifndef TENON_CORE_GRAPH_BUILDER_H_
#define TENON_CORE_GRAPH_BUILDER_H_

#include <span>
#include <string>
#include <vector>

#include "core/graph/attr.h"
#include "core/graph/edge.h"
#include "core/graph/shape_inference.h"

struct tenon_graph_builder_context {};

namespace tenon::graph {

struct Node;      // node.h
struct NodeSpec;
struct OpDef;     // op_def.h

class Builder : public tenon_graph_builder_context {
 public:
  explicit Builder(Graph* graph);
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  Graph& graph() { return *graph_; }
  void set_scope(std::string scope) { scope_ = std::move(scope); }
  const std::string& scope() const { return scope_; }
  // The StateName of the node that is made of what is added from now on; empty: added nodes stand for themselves.
  void set_state_scope(std::string name) { state_scope_ = std::move(name); }
  void set_controls(std::vector<NodeId> controls) { controls_ = std::move(controls); }
  const std::vector<NodeId>& controls() const { return controls_; }
  // That added nodes ask for.
  void set_device(std::string device) { device_ = std::move(device); }
  const std::string& device() const { return device_; }

  // Adds a node of a named op; the name is a wish below the scope, empty for the op's own.
  Result<NodeId> Add(std::string_view op, std::vector<Edge> inputs, AttrMap attrs = {}, std::string_view name = {},
                      std::vector<NodeId> controls = {});
  // Adds a node of the op that plays a role.
  Result<NodeId> AddRole(std::string_view role, std::vector<Edge> inputs, AttrMap attrs = {},
                         std::string_view name = {}, std::vector<NodeId> controls = {});
  // Adds one of node `like`'s op, of other inputs (LikeNode).
  Result<NodeId> AddLike(NodeId like, std::vector<Edge> inputs, AttrMap attrs = {});
  Result<Edge> Constant(Tensor value, std::string_view name = {});
  Result<Edge> ScalarInt32(int32_t value, std::string_view name = {});

  // Facts of an edge, inferred when asked. Errors of shape functions give unknown shapes here: the step will say them.
  const OutputFacts& Facts(Edge edge) { return Inferred().facts(edge); }
  const ShapeInference& Inferred();
  // Edges that a step is given values for, said before anything is inferred.
  void SetFed(std::vector<Edge> edges) { fed_ = std::move(edges); Forget(); }
  // Inferring begins anew: an input was changed after the fact.
  void Forget();
  // Whether a node's inputs are such as its op allows, as far as they are known: what its shape function says.
  Status Check(NodeId node);

  const tenon_graph_builder* c() const { return &table_; }

 private:
  Result<NodeId> AddOp(const OpDef* op, std::vector<Edge> inputs, AttrMap attrs, std::string_view name,
                        std::vector<NodeId> controls);
  Graph* graph_;
  std::string scope_, state_scope_;
  int states_ = 0;  // of the state scope's
  std::string device_;
  std::vector<NodeId> controls_;
  std::vector<Edge> fed_;
  ShapeInference inference_;
  NodeId inferred_{0};
  tenon_graph_builder table_;
};

// What a node is made of that is like another but for its inputs, of those types and as many as the other has: declared
// attributes that these determine follow them, given ones are as given, and the rest is the other's, as is the version
// of the op. It has no inputs.
Result<NodeSpec> LikeNode(const Node& node, const std::vector<DType>& input_types, AttrMap given);
Result<AttrMap> AttrsFromC(std::span<const tenon_attr> attrs);
// The output that a plugin names; INVALID_ARGUMENT: there is none.
Result<Edge> CheckedEdge(const Graph& graph, tenon_output output);

inline tenon_output ToC(Edge edge) { return {edge.node.number(), edge.index, 0}; }
inline Edge FromC(tenon_output output) { return {NodeId(output.node), output.index}; }

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_BUILDER_H_
