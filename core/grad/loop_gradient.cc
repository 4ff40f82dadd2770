// SPDX-License-Identifier: Apache-2.0
#include "core/grad/loop_gradient.h"

#include <map>

namespace tenon::grad {
namespace {

using graph::AttrMap;
using graph::AttrValue;
using graph::Edge;
using graph::Frame;
using graph::Graph;
using graph::LoopVariable;
using graph::Node;
using graph::NodeId;

LoopVariable VariableOf(const Graph& graph, const Node& merge) {
  LoopVariable variable;
  variable.merge = merge.id;
  for (const Edge& edge : merge.inputs) {
    if (graph.node(edge.node).has(TENON_OP_NEXT_ITERATION)) variable.next = edge.node;
    else if (graph.node(edge.node).has(TENON_OP_ENTER)) variable.enter = edge.node;
  }
  return variable;
}

// The loop's variables, whether or not the loop has conditionals inside.
std::vector<LoopVariable> VariablesOf(const Graph& graph, const Frame& frame) {
  std::map<NodeId, LoopVariable> by_merge;
  for (NodeId id : frame.nodes)
    if (const Node& node = graph.node(id); IsLoopMerge(graph, node)) by_merge[id] = VariableOf(graph, node);
  for (NodeId id : frame.nodes) {
    const Node& node = graph.node(id);
    if (!IsLoopSwitch(graph, node)) continue;
    if (const auto it = by_merge.find(node.inputs[0].node); it != by_merge.end()) it->second.switch_node = id;
  }
  for (NodeId id : frame.nodes) {
    const Node& node = graph.node(id);
    if (!node.has(TENON_OP_EXIT)) continue;
    for (auto& [merge, variable] : by_merge)
      if (variable.switch_node == node.inputs[0].node) variable.exit = id;
  }
  std::vector<LoopVariable> out;
  for (auto& [merge, variable] : by_merge) out.push_back(variable);
  return out;
}

}  // namespace

LoopGradient::LoopGradient(const Parts& parts, graph::FrameId frame, BackwardLoop* parent)
    : parts_(parts), builder_(parts.builder), graph_(parts.builder->graph()), frame_(parts.forward->loops().frame(frame)), sums_(*parts.sums),
      variables_(VariablesOf(graph_, frame_)) {
  back_.frame = frame;
  back_.parent = parent;
}

Status LoopGradient::Add(Arrived* arrived) {
  TENON_ASSIGN_OR_RETURN(const bool arrives, Arrives(arrived));
  if (!arrives) return Status::Ok();
  TENON_RETURN_IF_ERROR(CheckForm());
  NameLoop();
  TENON_ASSIGN_OR_RETURN(const Edge count, CountTurns());
  TENON_ASSIGN_OR_RETURN(const Edge count_here, parts_.values->Find(count, back_.parent));
  TENON_RETURN_IF_ERROR(CountDown(count_here));
  Arrived inside;
  TENON_RETURN_IF_ERROR(OpenVariables(arrived, &inside));
  TENON_RETURN_IF_ERROR(OpenInvariants());
  TENON_RETURN_IF_ERROR(parts_.walk(&back_, &inside));
  const NodeId before = sums_.SetTurn(back_.turn);
  Status status = CloseVariables(&inside, arrived);
  if (status.ok()) status = CloseInvariants(&inside, arrived);
  sums_.SetTurn(before);
  return status;
}

// Whether a gradient flows through what leaves the loop.
Result<bool> LoopGradient::Arrives(Arrived* arrived) {
  bool any = false;
  for (const LoopVariable& variable : variables_) {
    if (!variable.exit) continue;
    TENON_ASSIGN_OR_RETURN(const tenon_gradient total, sums_.Total(arrived, {variable.exit, 0}));
    any = any || HasValue(total);
  }
  return any;
}

Status LoopGradient::CheckForm() const {
  if (!frame_.condition) return Unimplemented(StrCat("loop '", frame_.name, "' has no loop condition; it has no gradient"));
  for (const LoopVariable& variable : variables_)
    if (!variable.enter)
      return InvalidArgument(StrCat("loop '", frame_.name, "': ", graph_.node(variable.merge).Describe(), " does not begin with an Enter; it has no gradient"));
  return Status::Ok();
}

void LoopGradient::NameLoop() {
  back_.name = graph_.UniqueName(builder_->scope() + "/" + frame_.name + "_gradient");
  if (const AttrValue* parallel = graph_.node(frame_.enters[0]).FindAttr("parallel_iterations")) back_.parallel_iterations = parallel->i();
  back_.forward_condition = {frame_.condition, 0};
}

// Adds a counter to the forward loop; gives the number of turns, as a value of the frame around it.
Result<Edge> LoopGradient::CountTurns() {
  const Node enter = graph_.node(frame_.enters[0]);
  AttrMap attrs = {{"frame_name", AttrValue::String(frame_.name)}, {"is_constant", AttrValue::Bool(false)}};
  if (const AttrValue* parallel = enter.FindAttr("parallel_iterations")) attrs.emplace("parallel_iterations", *parallel);
  // The zero must live in the frame around the loop: it waits for what enters it.
  std::vector<NodeId> pivot;
  if (frame_.parent != graph::kStep) pivot = {enter.inputs[0].node};
  const std::vector<NodeId> before = builder_->controls();
  builder_->set_controls(pivot);
  auto zero = builder_->ScalarInt32(0, "turns");
  builder_->set_controls(before);
  if (!zero.ok()) return zero.status();
  TENON_ASSIGN_OR_RETURN(const NodeId merge, OpenVariable(builder_, attrs, *zero));
  TENON_ASSIGN_OR_RETURN(const TurnVariable variable, CloseVariable(builder_, merge, back_.forward_condition));
  back_.forward_turn = variable.in_turn.node;
  TENON_ASSIGN_OR_RETURN(const Edge one, ConstantIn(builder_, back_.forward_turn, 1));
  TENON_ASSIGN_OR_RETURN(back_.forward_add, builder_->AddRole("add", {variable.in_turn, one}));
  TENON_RETURN_IF_ERROR(SetNext(builder_, merge, {back_.forward_add, 0}));
  // It is looked up like a forward value.
  parts_.forward->NoteAdded(variable.exit.node, frame_.parent, enter.inputs[0]);
  return variable.exit;
}

// The backward counter and its condition.
Status LoopGradient::CountDown(Edge count) {
  TENON_ASSIGN_OR_RETURN(const NodeId counter, OpenVariable(builder_, back_.EnterAttrs(false), count));
  TENON_ASSIGN_OR_RETURN(const Edge one, ConstantIn(builder_, counter, 1));
  TENON_ASSIGN_OR_RETURN(const NodeId more, builder_->AddRole("greater_equal", {Edge{counter, 0}, one}));
  TENON_ASSIGN_OR_RETURN(const NodeId condition, builder_->AddRole("loop_condition", {Edge{more, 0}}));
  back_.condition = {condition, 0};
  TENON_ASSIGN_OR_RETURN(const TurnVariable turns, CloseVariable(builder_, counter, back_.condition));
  back_.turn = turns.in_turn.node;
  TENON_ASSIGN_OR_RETURN(const Edge step, ConstantIn(builder_, back_.turn, 1));
  TENON_ASSIGN_OR_RETURN(back_.subtract, builder_->AddRole("subtract", {turns.in_turn, step}));
  return SetNext(builder_, counter, {back_.subtract, 0});
}

bool LoopGradient::Carries(NodeId node) const { return parts_.between->Has(node) && MayCarry(graph_.TypeOf({node, 0})); }

Status LoopGradient::OpenVariables(Arrived* arrived, Arrived* inside) {
  for (const LoopVariable& variable : variables_) {
    if (!variable.switch_node || !Carries(variable.merge)) continue;
    TENON_ASSIGN_OR_RETURN(const Edge initial, InitialOf(variable, arrived));
    TENON_ASSIGN_OR_RETURN(const TurnVariable made, Open(initial));
    carried_.emplace_back(&variable, made);
    (*inside)[graph_.node(variable.next).inputs[0]].push_back(Dense(made.in_turn));
  }
  return Status::Ok();
}

// What arrived at the variable's exit, or zeros of the shape that it has when it leaves the loop.
Result<Edge> LoopGradient::InitialOf(const LoopVariable& variable, Arrived* arrived) {
  if (!variable.exit) return ZerosOutside(graph_.node(variable.enter).inputs[0]);
  TENON_ASSIGN_OR_RETURN(const tenon_gradient total, sums_.Total(arrived, {variable.exit, 0}));
  return HasValue(total) ? sums_.Densify(total) : ZerosOutside({variable.exit, 0});
}

Result<Edge> LoopGradient::ZerosOutside(Edge like) {
  const NodeId first_new = graph_.next_id();
  TENON_ASSIGN_OR_RETURN(const NodeId zeros, builder_->AddRole("zeros_like", {like}));
  TENON_RETURN_IF_ERROR(parts_.values->Localize(first_new, back_.parent));
  return Edge{zeros, 0};
}

Result<TurnVariable> LoopGradient::Open(Edge initial) {
  TENON_ASSIGN_OR_RETURN(const NodeId merge, OpenVariable(builder_, back_.EnterAttrs(false), initial));
  return CloseVariable(builder_, merge, back_.condition);
}

Status LoopGradient::OpenInvariants() {
  for (NodeId enter : frame_.enters) {
    if (!IsInvariant(graph_.node(enter)) || !Carries(enter)) continue;
    TENON_ASSIGN_OR_RETURN(const Edge zeros, ZerosOutside(graph_.node(enter).inputs[0]));
    TENON_ASSIGN_OR_RETURN(const TurnVariable made, Open(zeros));
    invariants_.emplace_back(enter, made);
  }
  return Status::Ok();
}

// The next values of the backward variables, and what leaves the backward loop.
Status LoopGradient::CloseVariables(Arrived* inside, Arrived* arrived) {
  for (const auto& [variable, made] : carried_) {
    // The body may read the variable before or after its switch.
    std::vector<tenon_gradient>& at_switch = (*inside)[{variable->switch_node, 1}];
    for (const tenon_gradient& gradient : (*inside)[{variable->merge, 0}]) at_switch.push_back(gradient);
    TENON_ASSIGN_OR_RETURN(const tenon_gradient total, sums_.Total(inside, {variable->switch_node, 1}));
    TENON_ASSIGN_OR_RETURN(const Edge next, sums_.DenseOrZeros(total, made.in_turn));
    TENON_RETURN_IF_ERROR(SetNext(builder_, made.merge, next));
    sums_.Add(arrived, graph_.node(variable->enter).inputs[0], Dense(made.exit));
  }
  return Status::Ok();
}

Status LoopGradient::CloseInvariants(Arrived* inside, Arrived* arrived) {
  for (const auto& [enter, made] : invariants_) {
    TENON_ASSIGN_OR_RETURN(const tenon_gradient total, sums_.Total(inside, {enter, 0}));
    Edge next = made.in_turn;
    if (HasValue(total)) {
      TENON_ASSIGN_OR_RETURN(const Edge dense, sums_.Densify(total));
      TENON_ASSIGN_OR_RETURN(const NodeId sum, builder_->AddRole("sum", {made.in_turn, dense}));
      next = {sum, 0};
    }
    TENON_RETURN_IF_ERROR(SetNext(builder_, made.merge, next));
    sums_.Add(arrived, graph_.node(enter).inputs[0], Dense(made.exit));
  }
  return Status::Ok();
}

}  // namespace tenon::grad
