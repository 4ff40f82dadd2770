// SPDX-License-Identifier: Apache-2.0
// Graph: nodes, edges, a function library. One form from import to plan.
//
// Invariants: node ids are dense and never reused; node i may only use ids that exist, except that an input may be a back
// edge (a merge fed by a next-iteration). Every node is valid for its op: attributes complete (defaults filled in), input
// types fit. Nodes are charged to the allowance under which the first is added (core/tensor/allowance.h), and adding ends when it does.
// Not thread-safe for changes; const use from any thread.
#ifndef TENON_CORE_GRAPH_GRAPH_H_
#define TENON_CORE_GRAPH_GRAPH_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/id.h"
#include "core/graph/op_registry.h"
#include "core/tensor/allowance.h"

// The ABI's opaque node is the graph's own.
struct tenon_node {};

namespace tenon::graph {

using NodeId = Id<struct NodeKind>;  // of one graph

// Something for each node of a graph.
template <typename T>
using NodeMap = IdVector<NodeId, T>;

// Output `index` of node `node`.
struct Edge {
  NodeId node;
  int32_t index = 0;
  bool operator==(const Edge&) const = default;
  auto operator<=>(const Edge&) const = default;
};

struct ArgRange {
  int32_t begin = 0;
  int32_t count = 0;
};

struct Node : tenon_node {
  NodeId id;
  std::string name;
  const OpDef* op = nullptr;
  AttrMap attrs;
  std::vector<Edge> inputs;
  std::vector<NodeId> controls;
  std::string device;
  std::vector<DType> input_types;   // with TENON_DT_REF where the op takes a reference
  std::vector<DType> output_types;
  std::vector<ArgRange> input_ranges;  // one an argument of the op
  std::vector<ArgRange> output_ranges;

  bool has(uint64_t trait) const { return op->has(trait); }
  const AttrValue* FindAttr(std::string_view attr) const {
    const auto it = attrs.find(attr);
    return it == attrs.end() ? nullptr : &it->second;
  }
  // "node 'x' (MatMul)".
  std::string Describe() const { return StrCat("node '", name, "' (", op->name, ")"); }
};

// What a new node is made of.
struct NodeSpec {
  const OpDef* op = nullptr;
  std::string name;
  std::vector<Edge> inputs;
  std::vector<NodeId> controls;
  AttrMap attrs;
  std::string device;
};

// A function of the library, as it stood in the file: its body is checked when it is used.
struct FunctionDef {
  struct Arg {
    std::string name;
    DType type = TENON_DT_INVALID;
    std::string type_attr, number_attr, type_list_attr;
  };
  struct BodyNode {
    std::string name, op, device;
    std::vector<std::string> inputs;  // "arg", "arg:i", "node:out_arg:i", "^node"
    AttrMap attrs;
  };
  std::string name, description;
  std::vector<Arg> inputs, outputs;
  std::vector<AttrDef> attrs;  // that a caller binds
  AttrMap labels;              // what is said of the function itself, as "_noinline"; nothing here depends on it
  std::vector<BodyNode> nodes;
  std::map<std::string, std::string> returns;          // output -> body input syntax
  std::map<std::string, std::string> control_returns;  // control output -> body node that must run
  std::string gradient;  // the function that is its gradient (GradientDef); empty: it is made of the body
  bool is_stateful = false;
  // Of a function that was read: its bytes in the file, which hold more than is known here and are what is written again. Empty: made here.
  std::string file_bytes;
};

using FunctionLibrary = std::map<std::string, std::shared_ptr<const FunctionDef>, std::less<>>;

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
  Result<std::vector<NodeId>> TopologicalOrder(const std::function<bool(NodeId)>& keep = {}) const;
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

// Of which version of its op a node is; an op that has no version has no such nodes.
inline constexpr std::string_view kVersionAttr = "_op_version";
// UNIMPLEMENTED: a node of this version needs a newer definition.
Status CheckVersion(const OpDef& op, const AttrValue& version);

// "node", 0 of "node", "node:0"; false for "^node" and malformed names.
bool SplitTensorName(std::string_view text, std::string_view* node, int32_t* index);
// Whether a name may be a node's.
bool IsValidNodeName(std::string_view name);

// The ABI's questions about a Node.
const tenon_node_services* NodeServices();
inline const Node* FromC(const tenon_node* node) { return static_cast<const Node*>(node); }

// A back edge: into a merge from a next-iteration.
inline bool IsBackEdge(const Node& from, const Node& to) {
  return from.has(TENON_OP_NEXT_ITERATION) && to.has(TENON_OP_MERGE);
}

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_GRAPH_H_
