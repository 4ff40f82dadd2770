// SPDX-License-Identifier: Apache-2.0
#include "core/grad/loop_gradient.h"

#include <algorithm>
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

// Values of at most this many elements gather sums; of larger ones rows are kept, which no turn copies a whole value
// for.
constexpr int64_t kSmall = 64 * 1024;

}  // namespace

// The loop's variables, whether or not the loop has conditionals inside.
std::vector<LoopGradient::Variable> LoopGradient::VariablesOf(const Graph& graph, const Frame& frame) {
  std::map<NodeId, Variable> by_merge;
  for (NodeId id : frame.nodes)
    if (const Node& node = graph.node(id); IsLoopMerge(graph, node)) by_merge[id] = {VariableOf(graph, node), {}};
  std::map<NodeId, NodeId> merge_of_switch;
  for (NodeId id : frame.nodes) {
    const Node& node = graph.node(id);
    if (!IsLoopSwitch(graph, node) || node.inputs[0].index != 0) continue;
    if (const auto it = by_merge.find(node.inputs[0].node); it != by_merge.end()) {
      it->second.switches.push_back(id);
      merge_of_switch[id] = it->first;
    }
  }
  for (NodeId id : frame.nodes) {
    const Node& node = graph.node(id);
    if (!node.has(TENON_OP_EXIT)) continue;
    if (const auto it = merge_of_switch.find(node.inputs[0].node); it != merge_of_switch.end())
      by_merge[it->second].exit = id;
  }
  std::vector<Variable> out;
  for (auto& [merge, variable] : by_merge) out.push_back(std::move(variable));
  return out;
}

LoopGradient::LoopGradient(const Parts& parts, graph::FrameId frame, BackwardLoop* parent)
    : parts_(parts),
      builder_(parts.builder),
      graph_(parts.builder->graph()),
      frame_(parts.forward->loops().frame(frame)),
      sums_(*parts.sums),
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
  TENON_RETURN_IF_ERROR(parts_.walk(&back_, &inside));
  const NodeId before = sums_.SetTurn(back_.turn);
  Status status = CloseVariables(&inside, arrived);
  if (status.ok()) status = CloseHandles(&inside, arrived);
  if (status.ok()) status = CloseInvariants(&inside, arrived);
  if (status.ok()) status = CloseStacks(arrived);
  if (status.ok()) status = OrderTurnsAround();
  sums_.SetTurn(before);
  return status;
}

// Whether a gradient flows through what leaves the loop, or lies on a stack for what it pushes.
Result<bool> LoopGradient::Arrives(Arrived* arrived) {
  TENON_ASSIGN_OR_RETURN(bool any, StacksArrive(arrived));
  for (const LoopVariable& variable : variables_) {
    if (!variable.exit) continue;
    TENON_ASSIGN_OR_RETURN(const tenon_gradient total, sums_.Total(arrived, {variable.exit, 0}));
    any = any || HasValue(total);
  }
  return any;
}

Result<bool> LoopGradient::StacksArrive(Arrived* arrived) {
  for (const NodeId enter : frame_.enters) {
    const Edge handle = Origin(graph_, graph_.node(enter).inputs[0]);
    if (!IsConstantEnter(graph_.node(enter)) || !parts_.stacks->StackOf(handle)) continue;
    TENON_ASSIGN_OR_RETURN(const tenon_gradient total, sums_.Total(arrived, handle));
    if (HasValue(total)) back_.gradients_of_pushed[enter] = graph::FromC(total.dense);
    // The handle came through the loop around this one.
    const auto around = back_.parent->gradients_of_pushed.find(handle.node);
    if (around == back_.parent->gradients_of_pushed.end()) continue;
    back_.shares_stacks = true;
    TENON_ASSIGN_OR_RETURN(back_.gradients_of_pushed[enter],
                           parts_.values->EnterConstant(around->second, back_.parent));
  }
  return !back_.gradients_of_pushed.empty();
}

Status LoopGradient::CheckForm() const {
  if (!frame_.condition)
    return Unimplemented(StrCat("loop '", frame_.name, "' has no loop condition; it has no gradient"));
  for (const LoopVariable& variable : variables_)
    if (!variable.enter)
      return InvalidArgument(StrCat("loop '", frame_.name, "': ", graph_.node(variable.merge).Describe(),
                                    " does not begin with an Enter; it has no gradient"));
  return Status::Ok();
}

void LoopGradient::NameLoop() {
  back_.name = graph_.UniqueName(builder_->scope() + "/" + frame_.name + "_gradient");
  if (const AttrValue* parallel = graph_.node(frame_.enters[0]).FindAttr("parallel_iterations"))
    back_.parallel_iterations = parallel->i();
  back_.forward_condition = {frame_.condition, 0};
}

// Adds a counter to the forward loop; gives the number of turns, as a value of the frame around it.
Result<Edge> LoopGradient::CountTurns() {
  const Node enter = graph_.node(frame_.enters[0]);
  AttrMap attrs = {{"frame_name", AttrValue::String(frame_.name)}, {"is_constant", AttrValue::Bool(false)}};
  if (const AttrValue* parallel = enter.FindAttr("parallel_iterations"))
    attrs.emplace("parallel_iterations", *parallel);
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
  back_.left = turns.exit;
  TENON_ASSIGN_OR_RETURN(const Edge step, ConstantIn(builder_, back_.turn, 1));
  TENON_ASSIGN_OR_RETURN(back_.subtract, builder_->AddRole("subtract", {turns.in_turn, step}));
  return SetNext(builder_, counter, {back_.subtract, 0});
}

bool LoopGradient::Carries(NodeId node) const {
  return parts_.between->Has(node) && MayCarry(graph_.TypeOf({node, 0}));
}

Status LoopGradient::OpenVariables(Arrived* arrived, Arrived* inside) {
  for (const Variable& variable : variables_) {
    if (variable.switches.empty() || !Carries(variable.merge)) continue;
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

template <typename Made>
Result<Made> LoopGradient::Outside(const std::function<Result<Made>()>& make) {
  const NodeId first_new = graph_.next_id();
  const NodeId before = sums_.SetTurn(back_.parent->turn);
  Result<Made> made = make();
  sums_.SetTurn(before);
  if (made.ok()) TENON_RETURN_IF_ERROR(parts_.values->Localize(first_new, back_.parent));
  return made;
}

Result<Edge> LoopGradient::ZerosOutside(Edge like, DType type) {
  return Outside<Edge>([&] { return sums_.Zeros(like, type); });
}

// The turn makes the variable of something else, which may be of another shape or, a list, of another length than what
// the variable was before it.
Result<Edge> LoopGradient::ZerosInTurn(const Variable& variable, const TurnVariable& made) {
  const Edge before{variable.merge, 0};
  if (IsPlain(BaseType(graph_.TypeOf(before))) && builder_->Facts(before).shape.fully_known())
    return sums_.Zeros(made.in_turn, TENON_DT_INVALID);
  const NodeId first_new = graph_.next_id();
  TENON_ASSIGN_OR_RETURN(const Edge zeros, sums_.Zeros(before, TENON_DT_INVALID));
  TENON_RETURN_IF_ERROR(parts_.values->Localize(first_new, &back_));
  return zeros;
}

Result<TurnVariable> LoopGradient::Open(Edge initial) {
  TENON_ASSIGN_OR_RETURN(const NodeId merge, OpenVariable(builder_, back_.EnterAttrs(false), initial));
  return CloseVariable(builder_, merge, back_.condition);
}

// What arrived at the variable in a turn: the body may read it before or after its switches.
Result<tenon_gradient> LoopGradient::TotalOf(const Variable& variable, Arrived* inside) {
  std::vector<tenon_gradient>& all = (*inside)[{variable.merge, 0}];
  for (const NodeId id : variable.switches)
    for (const tenon_gradient& gradient : (*inside)[{id, 1}]) all.push_back(gradient);
  return sums_.Total(inside, {variable.merge, 0});
}

// The next values of the backward variables, and what leaves the backward loop.
Status LoopGradient::CloseVariables(Arrived* inside, Arrived* arrived) {
  for (const auto& [variable, made] : carried_) {
    TENON_ASSIGN_OR_RETURN(const tenon_gradient total, TotalOf(*variable, inside));
    TENON_ASSIGN_OR_RETURN(const Edge next, HasValue(total) ? sums_.Densify(total) : ZerosInTurn(*variable, made));
    TENON_RETURN_IF_ERROR(SetNext(builder_, made.merge, next));
    sums_.Add(arrived, graph_.node(variable->enter).inputs[0], Dense(made.exit));
  }
  return Status::Ok();
}

// Handles of variables that go round with the loop: the same in all turns.
Status LoopGradient::CloseHandles(Arrived* inside, Arrived* arrived) {
  for (const Variable& variable : variables_) {
    if (BaseType(graph_.TypeOf({variable.merge, 0})) != TENON_DT_RESOURCE) continue;
    const Edge outside = graph_.node(variable.enter).inputs[0];
    TENON_ASSIGN_OR_RETURN(const tenon_gradient in_turn, TotalOf(variable, inside));
    tenon_gradient after = kNoGradient;
    if (variable.exit) {
      TENON_ASSIGN_OR_RETURN(after, sums_.Total(arrived, {variable.exit, 0}));
    }
    if (!HasValue(in_turn) && !HasValue(after)) continue;
    if (!PassesOn(variable))
      return Unimplemented(StrCat("loop '", frame_.name, "': ", graph_.node(variable.merge).Describe(),
                                  " is another variable's handle from turn to turn, through which no gradient goes; "
                                  "pick among the variables' values instead"));
    if (HasValue(after)) sums_.Add(arrived, outside, after);
    if (HasValue(in_turn)) TENON_RETURN_IF_ERROR(Gather(in_turn, outside, arrived));
  }
  return Status::Ok();
}

bool LoopGradient::PassesOn(const Variable& variable) const {
  Edge value = graph_.node(variable.next).inputs[0];
  while (graph_.node(value.node).has(TENON_OP_IDENTITY) &&
         static_cast<size_t>(value.index) < graph_.node(value.node).inputs.size())
    value = graph_.node(value.node).inputs[value.index];
  if (value == Edge{variable.merge, 0}) return true;
  return value.index == 1 &&
         std::find(variable.switches.begin(), variable.switches.end(), value.node) != variable.switches.end();
}

Status LoopGradient::CloseInvariants(Arrived* inside, Arrived* arrived) {
  for (const NodeId enter : frame_.enters) {
    if (!IsConstantEnter(graph_.node(enter)) || !parts_.between->Has(enter)) continue;
    TENON_ASSIGN_OR_RETURN(const tenon_gradient total, sums_.Total(inside, {enter, 0}));
    if (HasValue(total)) TENON_RETURN_IF_ERROR(Gather(total, graph_.node(enter).inputs[0], arrived));
  }
  return Status::Ok();
}

// What arrives in each turn at a value that is the same in all of them.
Status LoopGradient::Gather(const tenon_gradient& in_turn, Edge outside, Arrived* arrived) {
  return in_turn.kind == TENON_GRADIENT_SLICES && !IsSmall(outside) ? GatherRows(in_turn, outside, arrived)
                                                                    : GatherSums(in_turn, outside, arrived);
}

bool LoopGradient::IsSmall(Edge value) {
  const graph::OutputFacts& facts = builder_->Facts(value);
  const Shape& shape = BaseType(graph_.TypeOf(value)) == TENON_DT_RESOURCE ? facts.handle_shape : facts.shape;
  const auto elements = shape.num_elements();
  return shape.fully_known() && elements.ok() && *elements <= kSmall;
}

Status LoopGradient::GatherSums(const tenon_gradient& in_turn, Edge outside, Arrived* arrived) {
  TENON_ASSIGN_OR_RETURN(const Edge dense, sums_.Densify(in_turn));
  TENON_ASSIGN_OR_RETURN(const Edge zeros, ZerosOutside(outside, BaseType(graph_.TypeOf(dense))));
  TENON_ASSIGN_OR_RETURN(const TurnVariable made, Open(zeros));
  TENON_ASSIGN_OR_RETURN(const NodeId sum, builder_->AddRole("sum", {made.in_turn, dense}));
  TENON_RETURN_IF_ERROR(SetNext(builder_, made.merge, {sum, 0}));
  sums_.Add(arrived, outside, Dense(made.exit));
  return Status::Ok();
}

Status LoopGradient::GatherRows(const tenon_gradient& in_turn, Edge outside, Arrived* arrived) {
  TENON_ASSIGN_OR_RETURN(tenon_gradient all, Outside<tenon_gradient>([&] { return sums_.NoRows(outside, in_turn); }));
  for (tenon_output tenon_gradient::*end : {&tenon_gradient::dense, &tenon_gradient::indices}) {
    TENON_ASSIGN_OR_RETURN(const TurnVariable made, Open(graph::FromC(all.*end)));
    TENON_ASSIGN_OR_RETURN(const Edge axis, ConstantIn(builder_, back_.turn, 0));
    TENON_ASSIGN_OR_RETURN(const NodeId rows,
                           builder_->AddRole("concat", {made.in_turn, graph::FromC(in_turn.*end), axis}));
    TENON_RETURN_IF_ERROR(SetNext(builder_, made.merge, {rows, 0}));
    all.*end = graph::ToC(made.exit);
  }
  sums_.Add(arrived, outside, all);
  return Status::Ok();
}

// Turns of the loop around come one after the other where their inner turns push on one stack.
Status LoopGradient::OrderTurnsAround() {
  if (!back_.shares_stacks || back_.parent->is_step()) return Status::Ok();
  TENON_ASSIGN_OR_RETURN(const NodeId over, builder_->AddRole("control_trigger", {}, {}, {}, {back_.left.node}));
  graph_.AddControl(over, back_.parent->subtract);
  return Status::Ok();
}

// Stacks with the gradients of what the forward loop popped: those of what another loop pushed, which goes on when this
// one is over.
Status LoopGradient::CloseStacks(Arrived* arrived) {
  for (const auto& [enter, stack] : back_.gradients_of_popped) {
    TENON_ASSIGN_OR_RETURN(const NodeId full, builder_->AddRole("identity", {stack}, {}, {}, {back_.left.node}));
    sums_.Add(arrived, Origin(graph_, graph_.node(enter).inputs[0]), Dense({full, 0}));
  }
  return Status::Ok();
}

}  // namespace tenon::grad
