// SPDX-License-Identifier: Apache-2.0
#include "core/partition/transfers.h"

#include <algorithm>
#include <map>

#include "core/graph/graph.h"
#include "core/graph/op_registry.h"

namespace tenon::partition {

using graph::Edge;
using graph::Node;

namespace {

class Adder {
 public:
  Adder(graph::Graph* graph, const std::vector<Edge>& feeds, const Memories& memories)
      : graph_(graph), feeds_(feeds), memories_(memories) {}

  // The edge that has the value in that memory.
  Result<Edge> In(Edge edge, int32_t memory) {
    const int32_t from = memories_.of(edge);
    if (from == memory) return edge;
    const auto key = std::make_pair(edge, memory);
    if (const auto it = made_.find(key); it != made_.end()) return it->second;
    Edge made;
    if (IsConstant(edge)) {
      TENON_ASSIGN_OR_RETURN(made, Repeat(edge, memory));
    } else if (from != 0 && memory != 0 && !memories_.direct(from, memory)) {
      TENON_ASSIGN_OR_RETURN(const Edge on_host, In(edge, 0));
      TENON_ASSIGN_OR_RETURN(made, Move(on_host, 0, memory));
    } else {
      TENON_ASSIGN_OR_RETURN(made, Move(edge, from, memory));
    }
    made_.emplace(key, made);
    return made;
  }

  // What a reader sees of a variable's reference: its value at the reader's time. So the move is the reader's own, and
  // comes after what the reader comes after.
  Result<Edge> Read(Edge edge, int32_t memory, const std::vector<graph::NodeId>& controls) {
    const int32_t from = memories_.of(edge);
    if (from == memory) return edge;
    const bool through_host = from != 0 && memory != 0 && !memories_.direct(from, memory);
    TENON_ASSIGN_OR_RETURN(const Edge moved, Move(edge, from, through_host ? 0 : memory, controls));
    return through_host ? Move(moved, 0, memory) : moved;
  }

  // The edge that a fetch in that memory becomes.
  Result<Edge> Fetched(Edge edge, int32_t memory) {
    if (memory == 0 || memories_.of(edge) != memory || IsConstant(edge)) return In(edge, memory);
    Edge& made = made_[{edge, memory}];
    if (made.node) return made;
    TENON_ASSIGN_OR_RETURN(made, Move(edge, memory, memory));
    return made;
  }

  std::vector<AddedNode> TakeAdded() { return std::move(added_); }

 private:
  bool IsConstant(Edge edge) const {
    return graph_->node(edge.node).has(TENON_OP_CONSTANT) &&
           std::find(feeds_.begin(), feeds_.end(), edge) == feeds_.end();
  }

  Result<Edge> Move(Edge edge, int32_t from, int32_t to, const std::vector<graph::NodeId>& controls = {}) {
    TENON_ASSIGN_OR_RETURN(const graph::OpDef* identity, graph_->registry().FindRole("identity"));
    const std::string wish =
        StrCat(graph_->node(edge.node).name, edge.index == 0 ? "" : StrCat("_", edge.index), "/to_", ShortName(to));
    return Add({identity, graph_->UniqueName(wish), {edge}, controls, {}, memories_.name(to)}, to, from);
  }

  Result<Edge> Repeat(Edge edge, int32_t memory) {
    const Node& node = graph_->node(edge.node);
    return Add({node.op,
                graph_->UniqueName(StrCat(node.name, "/on_", ShortName(memory))),
                {},
                node.controls,
                node.attrs,
                memories_.name(memory)},
               memory, -1);
  }

  Result<Edge> Add(graph::NodeSpec spec, int32_t memory, int32_t from) {
    TENON_ASSIGN_OR_RETURN(const graph::NodeId id, graph_->Add(std::move(spec)));
    added_.push_back({id, memory, from});
    return Edge{id, 0};
  }

  // "TPU_0" of "/job:localhost/replica:0/task:0/device:TPU:0".
  std::string ShortName(int32_t memory) const {
    std::string name = memories_.name(memory);
    if (const size_t at = name.rfind("device:"); at != std::string::npos) name = name.substr(at + 7);
    for (char& c : name)
      if (c == ':' || c == '/') c = '_';
    return name;
  }

  graph::Graph* graph_;
  const std::vector<Edge>& feeds_;
  const Memories& memories_;
  std::map<std::pair<Edge, int32_t>, Edge> made_;
  std::vector<AddedNode> added_;
};

}  // namespace

Result<std::vector<AddedNode>> AddTransfers(graph::Graph* graph, const std::vector<graph::NodeId>& order,
                                            const std::vector<Edge>& feeds, std::vector<Edge>* fetches,
                                            const std::vector<int32_t>& fetch_memory, const Memories& memories) {
  Adder adder(graph, feeds, memories);
  for (graph::NodeId id : order) {
    for (size_t i = 0; i < graph->node(id).inputs.size(); ++i) {
      const Node& node = graph->node(id);
      const Edge edge = node.inputs[i];
      if (!edge.node || IsRef(node.input_types[i])) continue;
      const int32_t memory = memories.wanted(node, static_cast<int32_t>(i));
      const bool reads = IsRef(graph->node(edge.node).output_types[edge.index]);
      TENON_ASSIGN_OR_RETURN(const Edge wanted,
                             reads ? adder.Read(edge, memory, node.controls) : adder.In(edge, memory));
      if (wanted == edge) continue;
      graph->mutable_node(id).inputs[i] = wanted;
    }
  }
  for (size_t i = 0; i < fetches->size(); ++i) {
    TENON_ASSIGN_OR_RETURN((*fetches)[i], adder.Fetched((*fetches)[i], fetch_memory[i]));
  }
  return adder.TakeAdded();
}

}  // namespace tenon::partition
