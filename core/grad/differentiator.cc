// SPDX-License-Identifier: Apache-2.0
#include "core/grad/differentiator.h"

#include <algorithm>

namespace tenon::grad {

using graph::Edge;
using graph::Node;
using graph::NodeId;

Differentiator::Differentiator(graph::Builder* builder, ForwardGraph* forward, const OwnGradients* own, const std::vector<Edge>& ys, const std::vector<Edge>& xs)
    : builder_(builder), graph_(builder->graph()), forward_(*forward), ys_(ys), xs_(xs), between_(graph_, ys, xs), sums_(builder),
      values_(builder, forward), node_gradient_(builder, &sums_, own),
      parts_{builder, forward, &between_, &sums_, &values_, [this](BackwardLoop* back, Arrived* arrived) { return Walk(back, arrived); }} {}

Result<std::vector<tenon_gradient>> Differentiator::Run(const std::vector<Edge>& initial) {
  TENON_RETURN_IF_ERROR(CheckEnds());
  Arrived arrived;
  TENON_RETURN_IF_ERROR(Seed(initial, &arrived));
  BackwardLoop step;
  TENON_RETURN_IF_ERROR(Walk(&step, &arrived));
  std::vector<tenon_gradient> out;
  for (const Edge& x : xs_) {
    TENON_ASSIGN_OR_RETURN(const tenon_gradient gradient, Total(&arrived, x));
    out.push_back(gradient);
  }
  return out;
}

Status Differentiator::CheckEnds() const {
  for (const Edge& y : ys_)
    if (forward_.FrameOf(y) != graph::kStep) return InvalidArgument(StrCat("'", graph_.EdgeName(y), "' is inside a loop; differentiate what leaves it"));
  for (const Edge& x : xs_)
    if (forward_.FrameOf(x) != graph::kStep)
      return InvalidArgument(StrCat("'", graph_.EdgeName(x), "' is inside a loop; differentiate with respect to what enters it"));
  for (const Edge& y : ys_)
    if (!IsFloating(graph_.TypeOf(y)))
      return InvalidArgument(StrCat("'", graph_.EdgeName(y), "' is ", TypeName(graph_.TypeOf(y)), ", which has no gradient"));
  return Status::Ok();
}

Status Differentiator::Seed(const std::vector<Edge>& initial, Arrived* arrived) {
  for (size_t i = 0; i < ys_.size(); ++i) {
    Edge seed;
    if (initial.empty()) {
      TENON_ASSIGN_OR_RETURN(seed.node, builder_->AddRole("ones_like", {ys_[i]}));
      PlaceBeside(seed.node, ys_[i].node);
    } else {
      seed = initial[i];
    }
    (*arrived)[ys_[i]].push_back(Dense(seed));
  }
  return Status::Ok();
}

Status Differentiator::Walk(BackwardLoop* back, Arrived* arrived) {
  const NodeId before = sums_.SetTurn(back->turn);
  Status status = WalkItems(back, arrived);
  sums_.SetTurn(before);
  return status;
}

// The items of back->frame from last to first. `arrived` has what arrived from later items.
Status Differentiator::WalkItems(BackwardLoop* back, Arrived* arrived) {
  TENON_ASSIGN_OR_RETURN(const std::vector<graph::LoopAnalysis::Item> items, forward_.loops().Items(graph_, forward_.order(), back->frame));
  for (auto item = items.rbegin(); item != items.rend(); ++item) {
    if (!item->node) {
      const NodeId first = graph_.next_id();
      TENON_RETURN_IF_ERROR(LoopGradient(parts_, item->child, back).Add(arrived));
      PlaceBeside(first, forward_.loops().frame(item->child).enters[0]);  // those that its turns' nodes did not place
      continue;
    }
    if (!between_.Has(item->node) || IsOfLoop(graph_.node(item->node))) continue;
    if (Status status = WalkNode(item->node, back, arrived); !status.ok())
      return std::move(status).Annotate(StrCat("gradient of ", graph_.node(item->node).Describe()));
  }
  return Status::Ok();
}

bool Differentiator::IsOfLoop(const Node& node) const {
  constexpr uint64_t kByLoop = TENON_OP_ENTER | TENON_OP_EXIT | TENON_OP_NEXT_ITERATION | TENON_OP_LOOP_CONDITION;
  return node.has(kByLoop) || IsLoopSwitch(graph_, node) || IsLoopMerge(graph_, node);
}

Status Differentiator::WalkNode(NodeId id, BackwardLoop* back, Arrived* arrived) {
  std::vector<tenon_gradient> dy;
  for (size_t k = 0; k < graph_.node(id).output_types.size(); ++k) {
    TENON_ASSIGN_OR_RETURN(const tenon_gradient total, Total(arrived, {id, static_cast<int32_t>(k)}));
    dy.push_back(total);
  }
  if (std::none_of(dy.begin(), dy.end(), HasValue)) return Status::Ok();
  const NodeId first_new = graph_.next_id();
  const Node node = graph_.node(id);  // a copy: the graph grows
  TENON_ASSIGN_OR_RETURN(std::vector<tenon_gradient> dx, node_gradient_.Of(node, dy));
  TENON_RETURN_IF_ERROR(values_.Localize(first_new, back));
  PlaceBeside(first_new, id);
  for (tenon_gradient& gradient : dx)
    for (tenon_output* end : {&gradient.dense, &gradient.indices, &gradient.dense_shape}) TENON_RETURN_IF_ERROR(values_.LocalizeEnd(end, back));
  for (size_t i = 0; i < dx.size(); ++i) {
    if (dx[i].kind != TENON_GRADIENT_NOT_DIFFERENTIABLE) sums_.Add(arrived, node.inputs[i], dx[i]);
    else if (LeadsToX(node.inputs[i]))
      return Status(Code::kInvalidArgument, StrCat("the op is not differentiable with respect to its input ", i));
  }
  return Status::Ok();
}

void Differentiator::PlaceBeside(NodeId first, NodeId node) {
  const std::string device = graph_.node(node).device;
  if (device.empty()) return;
  for (const NodeId id : IdRange(first, graph_.next_id()))
    if (std::string& its = graph_.mutable_node(id).device; its.empty() || its == builder_->device()) its = device;
}

Result<tenon_gradient> Differentiator::Total(Arrived* arrived, const Edge& edge) {
  const NodeId first = graph_.next_id();
  auto total = sums_.Total(arrived, edge);
  PlaceBeside(first, edge.node);
  return total;
}

bool Differentiator::LeadsToX(Edge edge) const { return between_.Has(edge.node) || std::find(xs_.begin(), xs_.end(), edge) != xs_.end(); }

}  // namespace tenon::grad
