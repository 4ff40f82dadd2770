// SPDX-License-Identifier: Apache-2.0
#include "core/graph/merge.h"

#include <vector>

#include "core/graph/function/function_library.h"
#include "core/graph/graph.h"

namespace tenon::graph {
namespace {

class Merger {
 public:
  Merger(const Graph& from, Graph* to) : from_(from), to_(*to), moved_(from.size()) {}

  Status Run() {
    TENON_ASSIGN_OR_RETURN(const std::vector<NodeId> order, from_.TopologicalOrder());
    for (NodeId id : order) TENON_RETURN_IF_ERROR(Add(id));
    for (NodeId id : fresh_) TENON_RETURN_IF_ERROR(CloseInputs(id));
    return Status::Ok();
  }

 private:
  NodeId& MovedTo(NodeId id) { return moved_[id]; }

  Status Add(NodeId id) {
    const Node& node = from_.node(id);
    NodeId& to = MovedTo(id);
    to = to_.Find(node.name);
    if (to) {
      if (to_.node(to).op->name == node.op->name) return Status::Ok();
      return AlreadyExists(StrCat(node.Describe(), ": the session has a node of that name with op ", to_.node(to).op->name));
    }
    NodeSpec spec{node.op, node.name, {}, {}, node.attrs, node.device};
    if (from_.library().contains(node.op->name)) {
      TENON_ASSIGN_OR_RETURN(spec.op, to_.FunctionOp(node.op->name));
    }
    for (const Edge& edge : node.inputs) {
      const NodeId source = !edge.node ? NodeId() : MovedTo(edge.node);
      spec.inputs.push_back({source, !source ? 0 : edge.index});
    }
    for (NodeId control : node.controls) spec.controls.push_back(MovedTo(control));
    TENON_ASSIGN_OR_RETURN(to, to_.Add(std::move(spec)));
    fresh_.push_back(id);
    return Status::Ok();
  }

  // Those that came after the node: of loops.
  Status CloseInputs(NodeId id) {
    const NodeId at = MovedTo(id);
    for (size_t i = 0; i < from_.node(id).inputs.size(); ++i) {
      const Edge edge = from_.node(id).inputs[i];
      if (edge.node && to_.node(at).inputs[i].node == NodeId())
        TENON_RETURN_IF_ERROR(to_.SetInput(at, static_cast<int32_t>(i), {MovedTo(edge.node), edge.index}));
    }
    return Status::Ok();
  }

  const Graph& from_;
  Graph& to_;
  NodeMap<NodeId> moved_;  // by node of `from_`
  std::vector<NodeId> fresh_;
};

}  // namespace

Status Merge(const Graph& from, Graph* to) {
  const int32_t before = to->size();
  FunctionLibrary library = to->library();
  Status status = AddFunctions(from.library(), &to->library());
  if (status.ok()) status = Merger(from, to).Run();
  if (!status.ok()) {
    to->Truncate(before);
    to->library() = std::move(library);
  }
  return status;
}

}  // namespace tenon::graph
