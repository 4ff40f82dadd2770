// SPDX-License-Identifier: Apache-2.0
#include "core/grad/forward_values.h"

#include "core/grad/stacks.h"

namespace tenon::grad {

using graph::AttrMap;
using graph::AttrValue;
using graph::Edge;
using graph::FrameId;
using graph::NodeId;

Status ForwardValues::Localize(NodeId first_new, BackwardLoop* back) {
  if (back->is_step()) return Status::Ok();
  const NodeId end = graph_.next_id();
  for (const NodeId id : IdRange(first_new, end)) {
    if (made_by_loops_.contains(id)) continue;
    TENON_RETURN_IF_ERROR(LocalizeInputs(id, back));
    if (graph_.node(id).inputs.empty() && graph_.node(id).controls.empty()) graph_.AddControl(back->turn, id);
  }
  // What Find added stands where it belongs.
  for (const NodeId id : IdRange(end, graph_.next_id())) made_by_loops_.insert(id);
  builder_->Forget();
  return Status::Ok();
}

Status ForwardValues::LocalizeInputs(NodeId id, BackwardLoop* back) {
  for (size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
    const Edge edge = graph_.node(id).inputs[i];
    if (!forward_.FrameOf(edge)) continue;
    TENON_ASSIGN_OR_RETURN(const Edge here, Find(edge, back));
    TENON_RETURN_IF_ERROR(graph_.SetInput(id, static_cast<int32_t>(i), here));
  }
  return Status::Ok();
}

Status ForwardValues::LocalizeEnd(tenon_output* end, BackwardLoop* back) {
  if (end->node < 0 || back->is_step() || !forward_.FrameOf(graph::FromC(*end))) return Status::Ok();
  TENON_ASSIGN_OR_RETURN(const Edge here, Find(graph::FromC(*end), back));
  *end = graph::ToC(here);
  return Status::Ok();
}

Result<Edge> ForwardValues::Find(Edge edge, BackwardLoop* back) {
  const FrameId frame = forward_.FrameOf(edge);
  if (frame == back->frame && frame == graph::kStep) return edge;
  if (const auto it = back->forward_values.find(edge); it != back->forward_values.end()) return it->second;
  TENON_ASSIGN_OR_RETURN(const Edge here, Make(edge, frame, back));
  back->forward_values[edge] = here;
  return here;
}

Result<Edge> ForwardValues::Make(Edge edge, FrameId frame, BackwardLoop* back) {
  const auto enter = [&](Edge outside) -> Result<Edge> {
    TENON_ASSIGN_OR_RETURN(const Edge there, Find(outside, back->parent));
    return EnterConstant(there, back);
  };
  if (frame != back->frame) return enter(edge);  // of a frame further out
  const graph::Node& node = graph_.node(edge.node);
  if (forward_.Has(edge.node) && IsConstantEnter(node)) return enter(node.inputs[0]);
  return ThroughStack(edge, back);
}

Result<Edge> ForwardValues::EnterConstant(Edge outside, BackwardLoop* back) {
  if (const auto it = back->entered.find(outside); it != back->entered.end()) return it->second;
  TENON_ASSIGN_OR_RETURN(const NodeId enter, builder_->AddRole("enter", {outside}, back->EnterAttrs(true)));
  back->entered[outside] = {enter, 0};
  return Edge{enter, 0};
}

// Pushed in each forward turn, popped in each backward turn. A value of a branch is pushed and popped only when the
// branch was taken.
Result<Edge> ForwardValues::ThroughStack(Edge edge, BackwardLoop* back) {
  if (BaseType(graph_.TypeOf(edge)) == TENON_DT_RESOURCE) {
    // A handle that is the same in all turns needs no stack, but the branches that the value is in.
    if (const Edge origin = Origin(graph_, edge); origin != edge && IsConstantEnter(graph_.node(origin.node))) {
      TENON_ASSIGN_OR_RETURN(const Edge handle, Find(origin, back));
      return InBranchesOf(edge, handle, back);
    }
  }
  TENON_ASSIGN_OR_RETURN(const Edge stack, MakeStack(BaseType(graph_.TypeOf(edge)), *back));
  TENON_RETURN_IF_ERROR(Push(edge, stack, *back));
  return Pop(edge, stack, back);
}

// The stack lives in the frame around the forward loop.
Result<Edge> ForwardValues::MakeStack(DType type, const BackwardLoop& back) {
  const graph::Frame& frame = forward_.loops().frame(back.frame);
  const Edge beside = graph_.node(frame.enters[0]).inputs[0];
  const std::vector<NodeId> before = builder_->controls();
  if (frame.parent != graph::kStep) builder_->set_controls({beside.node});
  auto limit = builder_->ScalarInt32(-1, "stack_limit");
  builder_->set_controls(before);
  if (!limit.ok()) return limit.status();
  TENON_ASSIGN_OR_RETURN(const NodeId stack,
                         builder_->AddRole("stack", {*limit}, {{"elem_type", AttrValue::Type(type)}}));
  forward_.NoteAdded(stack, frame.parent, beside);
  return Edge{stack, 0};
}

Status ForwardValues::Push(Edge edge, Edge stack, const BackwardLoop& back) {
  const graph::Frame& frame = forward_.loops().frame(back.frame);
  AttrMap attrs = {{"frame_name", AttrValue::String(frame.name)}, {"is_constant", AttrValue::Bool(true)}};
  if (const AttrValue* parallel = graph_.node(frame.enters[0]).FindAttr("parallel_iterations"))
    attrs.emplace("parallel_iterations", *parallel);
  TENON_ASSIGN_OR_RETURN(const NodeId handle, builder_->AddRole("enter", {stack}, attrs));
  // Only in turns: a value that the condition part computes also comes once more at the end.
  Edge pushed = edge;
  if (!frame.body.contains(edge.node)) {
    TENON_ASSIGN_OR_RETURN(const NodeId gate, builder_->AddRole("switch", {edge, back.forward_condition}));
    pushed = {gate, 1};
  }
  return PushOn({handle, 0}, pushed, back.forward_turn, back.forward_add);
}

// `next` gives the counter that follows the turn's: turns push one after the other.
Status ForwardValues::PushOn(Edge handle, Edge value, NodeId turn, NodeId next) {
  TENON_ASSIGN_OR_RETURN(const NodeId push, builder_->AddRole("stack_push", {handle, value}, {}, {}, {turn}));
  // The trigger is alive even where the push was not taken.
  TENON_ASSIGN_OR_RETURN(const NodeId pushed_once, builder_->AddRole("control_trigger", {}, {}, {}, {push}));
  graph_.AddControl(pushed_once, next);
  return Status::Ok();
}

Result<Edge> ForwardValues::PushInTurns(Edge value, BackwardLoop* back, BackwardLoop* around) {
  const std::vector<NodeId> before = builder_->controls();
  if (!around->parent->is_step()) builder_->set_controls({around->parent->turn});
  auto limit = builder_->ScalarInt32(-1, "stack_limit");
  builder_->set_controls(before);
  if (!limit.ok()) return limit.status();
  TENON_ASSIGN_OR_RETURN(
      const NodeId stack,
      builder_->AddRole("stack", {*limit}, {{"elem_type", AttrValue::Type(BaseType(graph_.TypeOf(value)))}}));
  TENON_ASSIGN_OR_RETURN(const Edge handle, EnterFrom({stack, 0}, around, back));
  TENON_RETURN_IF_ERROR(PushOn(handle, value, back->turn, back->subtract));
  return Edge{stack, 0};
}

Result<Edge> ForwardValues::EnterFrom(Edge outside, BackwardLoop* around, BackwardLoop* back) {
  if (back == around) return EnterConstant(outside, back);
  TENON_ASSIGN_OR_RETURN(const Edge entered, EnterFrom(outside, around, back->parent));
  return EnterConstant(entered, back);
}

Result<Edge> ForwardValues::Pop(Edge edge, Edge stack, BackwardLoop* back) {
  TENON_ASSIGN_OR_RETURN(const Edge outside, Find(stack, back->parent));
  return PopInTurns(outside, BaseType(graph_.TypeOf(edge)), edge, back);
}

// The handle, dead in turns that do not take the branches around the forward value `beside`.
Result<Edge> ForwardValues::InBranchesOf(Edge beside, Edge handle, BackwardLoop* back) {
  for (const Branch& branch : forward_.BranchesOf(beside)) {
    if (forward_.FrameOf(branch.predicate) != back->frame) continue;  // a conditional around the whole loop
    TENON_ASSIGN_OR_RETURN(const Edge predicate, Find(branch.predicate, back));
    TENON_ASSIGN_OR_RETURN(const NodeId gate, builder_->AddRole("switch", {handle, predicate}));
    handle = {gate, branch.side};
  }
  return handle;
}

Result<Edge> ForwardValues::PopInTurns(Edge stack, DType type, Edge beside, BackwardLoop* back) {
  TENON_ASSIGN_OR_RETURN(const Edge entered, EnterConstant(stack, back));
  TENON_ASSIGN_OR_RETURN(const Edge handle, InBranchesOf(beside, entered, back));
  TENON_ASSIGN_OR_RETURN(const NodeId pop, builder_->AddRole("stack_pop", {handle},
                                                             {{"elem_type", AttrValue::Type(type)}}, {}, {back->turn}));
  TENON_ASSIGN_OR_RETURN(const NodeId popped_once, builder_->AddRole("control_trigger", {}, {}, {}, {pop}));
  graph_.AddControl(popped_once, back->subtract);
  return Edge{pop, 0};
}

}  // namespace tenon::grad
