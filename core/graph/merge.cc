// SPDX-License-Identifier: Apache-2.0
#include "core/graph/merge.h"

#include <memory>
#include <utility>
#include <vector>

#include "core/graph/function/function_body.h"
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
    for (NodeId id : dataflow_) TENON_RETURN_IF_ERROR(MakeDataflow(id));
    return Status::Ok();
  }
  // What was there stands as it did.
  void Undo() {
    for (; !replaced_.empty(); replaced_.pop_back()) to_.Restore(std::move(replaced_.back()));
  }

 private:
  NodeId& MovedTo(NodeId id) { return moved_[id]; }

  Status Add(NodeId id) {
    const Node& node = from_.node(id);
    NodeId& to = MovedTo(id);
    to = to_.Find(node.name);
    if (to) {
      if (to_.node(to).op->name == node.op->name) return Status::Ok();
      if (IsDataflowOf(node, to_.node(to))) {
        dataflow_.push_back(id);
        return Status::Ok();
      }
      return AlreadyExists(
          StrCat(node.Describe(), ": the session has a node of that name with op ", to_.node(to).op->name));
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

  // Whether a call became dataflow since it was merged, as one that a gradient goes through does: its results pass an
  // identity then, or there are none.
  static bool IsDataflowOf(const Node& node, const Node& call) {
    return call.has(kCallsFunctions) && node.output_types == call.output_types &&
           (node.has(TENON_OP_IDENTITY) || (node.inputs.empty() && node.output_types.empty()));
  }
  Status MakeDataflow(NodeId id) {
    const Node& node = from_.node(id);
    NodeSpec spec{node.op, node.name, {}, {}, node.attrs, node.device};
    for (const Edge& edge : node.inputs) spec.inputs.push_back({MovedTo(edge.node), edge.index});
    for (NodeId control : node.controls) spec.controls.push_back(MovedTo(control));
    TENON_ASSIGN_OR_RETURN(std::unique_ptr<Node> call, to_.Replace(MovedTo(id), std::move(spec)));
    replaced_.push_back(std::move(call));
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
  std::vector<NodeId> fresh_, dataflow_;
  std::vector<std::unique_ptr<Node>> replaced_;
};

}  // namespace

Status Merge(const Graph& from, Graph* to) {
  const int32_t before = to->size();
  FunctionLibrary library = to->library();
  Merger merger(from, to);
  Status status = AddFunctions(from.library(), &to->library());
  if (status.ok()) status = merger.Run();
  if (!status.ok()) {
    merger.Undo();
    to->Truncate(before);
    to->library() = std::move(library);
  }
  return status;
}

}  // namespace tenon::graph
