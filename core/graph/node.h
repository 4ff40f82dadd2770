// SPDX-License-Identifier: Apache-2.0
// Node: what stands in a graph. Valid for its op: attributes complete (defaults filled in), input types fit.
#ifndef TENON_CORE_GRAPH_NODE_H_
#define TENON_CORE_GRAPH_NODE_H_

#include <string>
#include <string_view>
#include <vector>

#include "core/graph/attr.h"
#include "core/graph/edge.h"
#include "tenon/op.h"

// The ABI's opaque node is the graph's own.
struct tenon_node {};

namespace tenon::graph {

struct OpDef;

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
  uint64_t traits = 0;  // the op's

  bool has(uint64_t trait) const { return (traits & trait) != 0; }
  const AttrValue* FindAttr(std::string_view attr) const {
    const auto it = attrs.find(attr);
    return it == attrs.end() ? nullptr : &it->second;
  }
  // "node 'x' (MatMul)".
  std::string Describe() const;
};

// What the state of a node is found by, in every step of a session and on every task: its name, or, of a node that was
// made of a call (function_body.h), what stands in kStateNameAttr: the call's own and the node's in the body, joined as
// no node's name can be. So no other node has it, whatever its name.
inline constexpr std::string_view kStateNameAttr = "_state_name", kInBody = "/@";
std::string_view StateName(const Node& node);

// What a new node is made of.
struct NodeSpec {
  const OpDef* op = nullptr;
  std::string name;
  std::vector<Edge> inputs;
  std::vector<NodeId> controls;
  AttrMap attrs;
  std::string device;
};

// Of which version of its op a node is; an op that has no version has no such nodes.
inline constexpr std::string_view kVersionAttr = "_op_version";
// UNIMPLEMENTED: a node of this version needs a newer definition.
Status CheckVersion(const OpDef& op, const AttrValue& version);

// The ABI's questions about a Node.
const tenon_node_services* NodeServices();
// The same, but that a node's name is its StateName: for who makes what holds its state.
const tenon_node_services* StateServices();
inline const Node* FromC(const tenon_node* node) { return static_cast<const Node*>(node); }

// A back edge: into a merge from a next-iteration.
inline bool IsBackEdge(const Node& from, const Node& to) {
  return from.has(TENON_OP_NEXT_ITERATION) && to.has(TENON_OP_MERGE);
}

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_NODE_H_
