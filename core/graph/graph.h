// SPDX-License-Identifier: Apache-2.0
// Graph: nodes and a function library. One form from import to plan.
//
// Invariants: node ids are dense and never reused; node i may only use ids that exist, except that an input may be a
// back edge (a merge fed by a next-iteration). Nodes are charged to the allowance under which the first is added
// (core/tensor/allowance.h), and adding ends when it does.
// Not thread-safe for changes; const use from any thread.
#ifndef TENON_CORE_GRAPH_GRAPH_H_
#define TENON_CORE_GRAPH_GRAPH_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/graph/node.h"
#include "core/tensor/allowance.h"

namespace tenon::graph {

struct FunctionDef;  // function_def.h
class OpRegistry;    // op_registry.h

// By name. registered_gradients: which function a file calls the gradient of which op (RegisteredGradient), as
// messages' bytes (function_library.h reads them).
struct FunctionLibrary : std::map<std::string, std::shared_ptr<const FunctionDef>, std::less<>> {
  std::vector<std::string> registered_gradients;
};

class Graph {
 public:
  explicit Graph(const OpRegistry* registry) : registry_(registry) {}
  Graph(Graph&&) = default;
  Graph& operator=(Graph&&) = default;
  // A copy that shares nothing that changes.
  Graph Clone() const;

  const OpRegistry& registry() const { return *registry_; }
  size_t size() const { return nodes_.size(); }
  IdRange<NodeId> ids() const { return nodes_.ids(); }
  NodeId next_id() const { return nodes_.next_id(); }  // of the node that is added next
  bool Has(NodeId id) const { return nodes_.contains(id); }
  const Node& node(NodeId id) const { return *nodes_[id]; }
  Node& mutable_node(NodeId id) { return *nodes_[id]; }
  // None when there is none of the name.
  NodeId Find(std::string_view name) const;
  // The node's id, or NOT_FOUND with a near miss, or why the node could not be made.
  Result<NodeId> Get(std::string_view name) const;
  // Nodes that stood in a file and could not be made here: nobody may need them. By name, with the reason.
  void SetMissing(std::string name, Status why) { missing_.insert_or_assign(std::move(name), std::move(why)); }
  bool IsMissing(std::string_view name) const { return missing_.contains(name); }
  // "node:k" or "node"; checks that the output exists.
  Result<Edge> ParseEdge(std::string_view name) const;
  std::string EdgeName(Edge edge) const;
  DType TypeOf(Edge edge) const { return node(edge.node).output_types[edge.index]; }

  // Adds a node: fills in attributes from the inputs and defaults, checks all against the op. Type attributes that
  // inputs determine may be missing. Leaves the graph unchanged on failure. An input edge of no node is left open for
  // SetInput (back edges of loops).
  Result<NodeId> Add(NodeSpec spec);
  // The node that Add would make if its inputs were of those types; it is of no graph.
  Result<Node> Trial(NodeSpec spec, const std::vector<DType>& input_types) const;
  // Puts another node in the place of `id`: same id and name, outputs of the same types. Returns the old one.
  Result<std::unique_ptr<Node>> Replace(NodeId id, NodeSpec spec);
  void Restore(std::unique_ptr<Node> old) { nodes_[old->id] = std::move(old); }
  // Connects input `index` of a node; types must fit.
  Status SetInput(NodeId id, int32_t index, Edge edge);
  void AddControl(NodeId from, NodeId to);
  // A name that does not exist yet, made from the wish.
  std::string UniqueName(std::string_view wish) const;

  // The op that calls a function of the library by its name (trait CALL).
  Result<const OpDef*> FunctionOp(std::string_view function);
  FunctionLibrary& library() { return library_; }
  const FunctionLibrary& library() const { return library_; }
  // For what its maker adds without Add, as a library.
  MemoryCharge& charge() { return charge_; }
  int32_t producer() const { return producer_; }
  void set_producer(int32_t producer) { producer_ = producer; }

  // Ids in an order in which every node comes after its inputs, back edges excepted, lower ids first; only those that
  // `keep` accepts (all when empty). INVALID_ARGUMENT names a cycle that is no loop.
  // place: a node comes as near as it can to where that one stands; without it, to where itself does.
  Result<std::vector<NodeId>> TopologicalOrder(const std::function<bool(NodeId)>& keep = {},
                                               const std::function<NodeId(NodeId)>& place = {}) const;
  // Drops all but the first `size` nodes; only for nodes that nothing before uses.
  void Truncate(size_t size);

 private:
  Status Fill(NodeSpec spec, Node* node) const;
  // What the node takes here and in the plans that are made of it, roughly.
  static uint64_t BytesOf(const Node& node);

  const OpRegistry* registry_;
  NodeMap<std::unique_ptr<Node>> nodes_;
  std::unordered_map<std::string, NodeId> names_;
  mutable std::unordered_map<std::string, int> name_counters_;
  FunctionLibrary library_;
  struct FunctionEntry {
    std::shared_ptr<const FunctionDef> function;  // that the op was made of
    std::shared_ptr<const OpDef> op;
  };
  std::map<std::string, FunctionEntry, std::less<>> function_ops_;
  std::vector<FunctionEntry> former_ops_;  // of functions that changed since; nodes may still have them
  int32_t producer_ = 0;
  std::map<std::string, Status, std::less<>> missing_;
  MemoryCharge charge_;  // for the nodes
};

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_GRAPH_H_
