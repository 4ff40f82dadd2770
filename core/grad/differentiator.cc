// SPDX-License-Identifier: Apache-2.0
#include "core/grad/differentiator.h"

#include <algorithm>

namespace tenon::grad {

using graph::Edge;
using graph::Node;
using graph::NodeId;

Differentiator::Differentiator(graph::Builder* builder, ForwardGraph* forward, const OwnGradients* own,
                               const std::vector<Edge>& ys, const std::vector<Edge>& xs)
    : builder_(builder),
      graph_(builder->graph()),
      forward_(*forward),
      ys_(ys),
      xs_(xs),
      stacks_(&graph_),
      between_(graph_, stacks_, ys, xs),
      sums_(builder),
      values_(builder, forward),
      node_gradient_(builder, &sums_, own),
      parts_{builder, forward, &stacks_, &between_, &sums_, &values_, [this](BackwardLoop* back, Arrived* arrived) {
               return Walk(back, arrived);
             }} {}

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
    if (forward_.FrameOf(y) != graph::kStep)
      return InvalidArgument(StrCat("'", graph_.EdgeName(y), "' is inside a loop; differentiate what leaves it"));
  for (const Edge& x : xs_)
    if (forward_.FrameOf(x) != graph::kStep)
      return InvalidArgument(
          StrCat("'", graph_.EdgeName(x), "' is inside a loop; differentiate with respect to what enters it"));
  for (const Edge& y : ys_)
    if (!IsFloating(graph_.TypeOf(y)))
      return InvalidArgument(
          StrCat("'", graph_.EdgeName(y), "' is ", TypeName(graph_.TypeOf(y)), ", which has no gradient"));
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
  TENON_ASSIGN_OR_RETURN(const std::vector<graph::LoopAnalysis::Item> items,
                         forward_.loops().Items(graph_, forward_.order(), back->frame));
  // The loops in this one need the handles that it pushed, which no edge says.
  for (const auto& item : items)
    if (item.node && PushesHandle(item.node)) TENON_RETURN_IF_ERROR(WalkPush(item.node, back, arrived));
  for (auto item = items.rbegin(); item != items.rend(); ++item) {
    if (!item->node) {
      const NodeId first = graph_.next_id();
      TENON_RETURN_IF_ERROR(LoopGradient(parts_, item->child, back).Add(arrived));
      PlaceBeside(first, forward_.loops().frame(item->child).enters[0]);  // those that its turns' nodes did not place
      continue;
    }
    if (Status status = WalkItem(item->node, back, arrived); !status.ok())
      return std::move(status).Annotate(StrCat("gradient of ", graph_.node(item->node).Describe()));
  }
  return Status::Ok();
}

Status Differentiator::WalkItem(NodeId id, BackwardLoop* back, Arrived* arrived) {
  // Handles of stacks lie on no path, and yet have gradients: handles of the stacks of gradients.
  if (stacks_.IsPop(id)) return WalkPop(id, back, arrived);
  if (stacks_.IsPush(id)) return PushesHandle(id) ? Status::Ok() : WalkPush(id, back, arrived);
  if (!between_.Has(id)) return Status::Ok();
  if (IsGate(graph_.node(id))) return PassGate(graph_.node(id), arrived);
  return IsOfLoop(graph_.node(id)) ? Status::Ok() : WalkNode(id, back, arrived);
}

// A switch on the loop's condition of what is no loop variable: its value, in turns alone.
bool Differentiator::IsGate(const Node& node) const {
  return IsLoopSwitch(graph_, node) &&
         !(node.inputs[0].index == 0 && IsLoopMerge(graph_, graph_.node(node.inputs[0].node)));
}

Status Differentiator::PassGate(const Node& node, Arrived* arrived) {
  const Edge value = node.inputs[0];
  TENON_ASSIGN_OR_RETURN(const tenon_gradient total, Total(arrived, {node.id, 1}));
  sums_.Add(arrived, value, total);
  return Status::Ok();
}

Status Differentiator::WalkPop(NodeId id, BackwardLoop* back, Arrived* arrived) {
  TENON_ASSIGN_OR_RETURN(const tenon_gradient total, Total(arrived, {id, 0}));
  if (!HasValue(total) || (!between_.Has(id) && !stacks_.StackOf({id, 0}))) return Status::Ok();
  TENON_ASSIGN_OR_RETURN(const std::vector<NodeId> enters, EntersOfHandle(id, stacks_.PushesOf(id), back));
  TENON_ASSIGN_OR_RETURN(const Edge dense, sums_.Densify(total));
  type_of_gradient_[stacks_.PushesOf(id)[0]] = BaseType(graph_.TypeOf(dense));
  const NodeId first = graph_.next_id();
  BackwardLoop* around = back;
  for (size_t i = 1; i < enters.size(); ++i, around = around->parent) around->shares_stacks = true;
  TENON_ASSIGN_OR_RETURN(around->gradients_of_popped[enters.back()], values_.PushInTurns(dense, back, around));
  PlaceBeside(first, id);
  return Status::Ok();
}

Status Differentiator::WalkPush(NodeId id, BackwardLoop* back, Arrived* arrived) {
  const Edge value = graph_.node(id).inputs[1];
  TENON_ASSIGN_OR_RETURN(const tenon_gradient total, Total(arrived, {id, 0}));
  sums_.Add(arrived, value, total);
  if (back->gradients_of_pushed.empty() || (!between_.Has(id) && !PushesHandle(id))) return Status::Ok();
  TENON_ASSIGN_OR_RETURN(const std::vector<NodeId> enters, EntersOfHandle(id, stacks_.PopsOf(id), back));
  const auto gradients = back->gradients_of_pushed.find(enters[0]);
  if (gradients == back->gradients_of_pushed.end()) return Status::Ok();
  const NodeId first = graph_.next_id();
  TENON_ASSIGN_OR_RETURN(const Edge popped,
                         values_.PopInTurns(gradients->second, type_of_gradient_.at(id), value, back));
  PlaceBeside(first, id);
  sums_.Add(arrived, PushesHandle(id) ? Origin(graph_, value) : value, Dense(popped));
  return Status::Ok();
}

bool Differentiator::PushesHandle(NodeId id) const {
  return stacks_.IsPush(id) && stacks_.StackOf(graph_.node(id).inputs[1]);
}

// others: what it may exchange values with.
Result<std::vector<NodeId>> Differentiator::EntersOfHandle(NodeId id, const std::vector<NodeId>& others,
                                                           const BackwardLoop* back) const {
  if (stacks_.IsStray(id))
    return Unimplemented("it is not seen which stack its handle is of, and so not what depends on what");
  if (others.size() != 1)
    return Unimplemented(StrCat(
        others.size(),
        " nodes push on its stack or pop from it where a gradient needs one; give each value a stack of its own"));
  std::vector<NodeId> enters;
  NodeId at = Origin(graph_, graph_.node(id).inputs[0]).node;
  for (; !back->is_step() && IsConstantEnter(graph_.node(at)) && forward_.loops().frame_of(at) == back->frame;
       back = back->parent) {
    enters.push_back(at);
    at = Origin(graph_, graph_.node(at).inputs[0]).node;
  }
  if (enters.empty() || graph_.node(at).has(TENON_OP_ENTER))
    return Unimplemented(
        "its stack is not one that a loop's turns push on or pop from; only of such there are gradients");
  return enters;
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
    for (tenon_output* end : {&gradient.dense, &gradient.indices, &gradient.dense_shape})
      TENON_RETURN_IF_ERROR(values_.LocalizeEnd(end, back));
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

bool Differentiator::LeadsToX(Edge edge) const {
  return between_.Has(edge.node) || std::find(xs_.begin(), xs_.end(), edge) != xs_.end();
}

}  // namespace tenon::grad
