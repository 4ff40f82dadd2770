// SPDX-License-Identifier: Apache-2.0
// Loops as operations over blocks of their own; conditionals as blocks that run when a predicate has a value, and
// selects.
#include <algorithm>
#include <unordered_set>

#include "core/exec/lower/emitter.h"
#include "core/graph/graph.h"
#include "core/tensor/allowance.h"

namespace tenon::exec {

using graph::BranchMerge;
using graph::Edge;
using graph::Frame;
using graph::FrameId;
using graph::LoopAnalysis;
using graph::LoopVariable;
using graph::Node;
using graph::RegionId;

Status Emitter::EmitFrame(FrameId frame, Part part, std::vector<Operation>* block) {
  const Frame& f = loops_.frame(frame);
  TENON_ASSIGN_OR_RETURN(const std::vector<LoopAnalysis::Item> items, loops_.Items(graph_, facts_.order(), frame));
  OpenBranches open{block, {}};
  for (const LoopAnalysis::Item& item : HasClaims() ? ClaimsAsWholes(items, frame) : items) {
    // A loop belongs to the part in which it is entered.
    const graph::NodeId entry = item.node ? item.node : loops_.frame(item.child).enters[0];
    bool body = f.body.contains(entry);
    if (!item.node)
      for (graph::NodeId enter : loops_.frame(item.child).enters) body = body || f.body.contains(enter);
    if (part != Part::kAll && body != (part == Part::kBody)) continue;
    const RegionId region = item.node ? branches_.region_of(item.node) : branches_.region_of_loop(item.child);
    std::vector<Operation>* into = open.Top();
    if (!item.node || MayEmit(graph_.node(item.node))) {
      TENON_ASSIGN_OR_RETURN(into, BlockOf(region, &open));
    }
    Status status = item.node ? EmitNode(item.node, into) : EmitLoop(item.child, into);
    TENON_RETURN_IF_ERROR(CheckAllowance());
    if (!status.ok()) {
      if (region == graph::kEverywhere) return status;
      // It may be a branch that is not taken.
      GiveUp(std::string(status.message()), true);
    }
    if (!refusal_.text.empty()) return Status::Ok();
  }
  return Status::Ok();
}

// Goes to the region's block: what runs in one region one after the other shares a block.
Result<std::vector<Operation>*> Emitter::BlockOf(RegionId region, OpenBranches* open) {
  std::vector<RegionId> path;
  for (RegionId at = region; at != graph::kEverywhere; at = branches_.regions()[at].parent)
    path.insert(path.begin(), at);
  size_t common = 0;
  while (common < path.size() && common < open->stack.size() && open->stack[common].first == path[common]) ++common;
  open->stack.resize(common);
  for (; common < path.size(); ++common) {
    const graph::Region& opened = branches_.regions()[path[common]];
    TENON_ASSIGN_OR_RETURN(const SlotId predicate, PredicateSlot(opened.predicate, opened.parent));
    Use(predicate);
    Operation& operation = Push(open->Top(), Operation::Kind::kBranch, opened.predicate.node);
    operation.inputs = {predicate};
    operation.branch = BranchId(code_->branches.size());
    code_->branches.push_back({predicate, opened.side, {}});
    open->stack.emplace_back(path[common], &code_->branches.back().block);
  }
  return open->Top();
}

// The host's copy of what lies on a device, made before, where the region around runs.
Edge Emitter::OnHost(Edge edge, RegionId around) {
  if (plan_.MemoryOf(edge) == 0) return edge;
  for (graph::NodeId id : facts_.order())
    if (plan_.TransferFrom(id) >= 0 && plan_.MemoryOf({id, 0}) == 0 && !slot_of_[id].empty() &&
        branches_.IsWithin(around, branches_.region_of(id)) && branches_.Resolve({id, 0}) == edge)
      return {id, 0};
  GiveUp(StrCat("predicate '", graph_.EdgeName(edge),
                "' lies on a device, without a copy for the host where it is asked"));
  return edge;
}

Result<SlotId> Emitter::PredicateSlot(Edge predicate, RegionId around) {
  predicate = OnHost(predicate, around);
  TENON_ASSIGN_OR_RETURN(const SlotId slot, SlotOf(predicate));
  if (code_->at(slot).dtype != TENON_DT_BOOL || !code_->at(slot).shape.fully_known() || code_->at(slot).bytes != 1)
    GiveUp(StrCat("predicate '", graph_.EdgeName(predicate), "' is not known to be one bool"));
  return slot;
}

// Whether a node becomes an operation (some that may do not).
bool Emitter::MayEmit(const Node& node) const {
  if (branches_.FindMerge(node.id) != nullptr || plan_.runner(node.id) != nullptr || plan_.TransferFrom(node.id) >= 0 ||
      plan_.ChannelOf(node.id))
    return true;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (node.inputs[i].node && IsRef(graph_.TypeOf(node.inputs[i])) && !IsRef(node.input_types[i])) return true;
  return false;
}

// Of a loop variable: its loop gives it its slots.
bool Emitter::IsVariableSwitch(graph::NodeId id) const {
  for (const LoopVariable& variable : loops_.frame(loops_.frame_of(id)).variables)
    if (variable.switch_node == id) return true;
  return false;
}

// Both sides are the value; a side is read in its region alone.
Status Emitter::EmitSwitch(const Node& node, std::vector<Operation>* block) {
  TENON_ASSIGN_OR_RETURN(SlotId slot, SlotOf(node.inputs[0]));
  if (IsRef(code_->at(slot).dtype) && !IsRef(node.output_types[0])) {
    TENON_ASSIGN_OR_RETURN(slot, EmitRead(slot, node, node.inputs[0], block));
  }
  for (int32_t side = 0; side < 2; ++side) SetSlot({node.id, side}, slot);
  return Status::Ok();
}

Status Emitter::EmitSelect(const Node& node, const BranchMerge& merge, std::vector<Operation>* block) {
  TENON_ASSIGN_OR_RETURN(const SlotId predicate, PredicateSlot(merge.predicate, branches_.region_of(node.id)));
  SlotId sides[2];
  for (int side = 0; side < 2; ++side) {
    const Edge edge = node.inputs[merge.input_of_side[side]];
    TENON_ASSIGN_OR_RETURN(sides[side], SlotOf(edge));
    if (IsRef(code_->at(sides[side]).dtype) != IsRef(node.output_types[0]))
      GiveUp(StrCat(node.Describe(), " merges a reference and a value"));
    Use(sides[side]);
  }
  Use(predicate);
  const bool same = code_->at(sides[0]).shape == code_->at(sides[1]).shape;
  const SlotId value = NewSlot(code_->at(sides[0]).dtype, same ? code_->at(sides[0]).shape : Shape::Unknown(),
                               Home::kSelected, code_->at(sides[0]).memory);
  code_->at(value).sides = {sides[0], sides[1]};
  SetSlot({node.id, 0}, value);
  std::vector<SlotId> outputs = {value};
  if (node.output_types.size() > 1) {
    outputs.push_back(NewSlot(TENON_DT_INT32, Shape(), Home::kArena));
    SetSlot({node.id, 1}, outputs.back());
  }
  Operation& operation = Push(block, Operation::Kind::kSelect, node.id);
  operation.inputs = {predicate, sides[0], sides[1]};
  operation.outputs = std::move(outputs);
  operation.input_of_side[0] = merge.input_of_side[0];
  operation.input_of_side[1] = merge.input_of_side[1];
  return Status::Ok();
}

Status Emitter::EmitInvariants(const Frame& frame, std::vector<Operation>* block) {
  for (graph::NodeId enter : frame.invariants) {
    if (!facts_.needed(enter)) continue;
    const Node& node = graph_.node(enter);
    TENON_ASSIGN_OR_RETURN(SlotId slot, SlotOf(node.inputs[0]));
    if (IsRef(code_->at(slot).dtype) && !IsRef(node.output_types[0])) {
      TENON_ASSIGN_OR_RETURN(slot, EmitRead(slot, node, node.inputs[0], block));
    }
    SetSlot({enter, 0}, slot);
    Use(slot);
  }
  return Status::Ok();
}

// Where the carried values live, from the loop's start.
Status Emitter::EnterVariables(const Frame& frame, Loop* loop, Variables* variables, std::vector<Operation>* block) {
  for (const LoopVariable& variable : frame.variables) {
    if (!facts_.needed(variable.merge)) continue;
    const Node& enter = graph_.node(variable.enter);
    TENON_ASSIGN_OR_RETURN(SlotId initial, SlotOf(enter.inputs[0]));
    if (IsRef(code_->at(initial).dtype) && !IsRef(enter.output_types[0])) {
      TENON_ASSIGN_OR_RETURN(initial, EmitRead(initial, enter, enter.inputs[0], block));
    }
    const DType dtype = code_->at(initial).dtype;
    const Shape& shape = facts_.of({variable.merge, 0}).shape;
    if ((!IsPlain(dtype) && dtype != TENON_DT_RESOURCE && !IsRef(dtype)) ||
        (!IsRef(dtype) && !(shape == code_->at(initial).shape)) || !code_->at(initial).shape.fully_known()) {
      GiveUp(StrCat("loop '", frame.name, "': ", graph_.node(variable.merge).Describe(),
                    " has no fixed shape or is no plain value"));
      return Status::Ok();
    }
    Use(initial);
    const SlotId current = NewSlot(dtype, code_->at(initial).shape, Home::kArena, code_->at(initial).memory);
    SetSlot({variable.merge, 0}, current);
    if (variable.switch_node) {
      SetSlot({variable.switch_node, 0}, current);
      SetSlot({variable.switch_node, 1}, current);
    }
    if (variable.exit) SetSlot({variable.exit, 0}, current);
    loop->carried.push_back({initial, current, {}, false, {}, code_->at(initial).memory != 0});
    if (code_->at(initial).memory != 0) PushTransfer(initial, current, variable.merge, block);
    variables->emplace_back(current, &variable);
  }
  return Status::Ok();
}

// What each variable is in the next turn.
Status Emitter::CloseVariables(const Frame& frame, const Variables& variables, Loop* loop) {
  for (size_t i = 0; i < variables.size(); ++i) {
    TENON_ASSIGN_OR_RETURN(const SlotId next, SlotOf(graph_.node(variables[i].second->next).inputs[0]));
    if (code_->at(next).bytes != code_->at(variables[i].first).bytes || !code_->at(next).shape.fully_known()) {
      GiveUp(StrCat("loop '", frame.name, "': a variable changes its shape"));
      return Status::Ok();
    }
    Use(next);
    loop->carried[i].next = next;
  }
  // A next value that is another variable's current one must be copied before that one is overwritten.
  for (auto& carried : loop->carried) {
    for (const auto& other : loop->carried)
      if (&other != &carried && MayStandIn(carried.next, code_->RootOf(other.current)))
        carried.through_temporary = true;
    if (!carried.through_temporary) continue;
    const Slot& current = code_->at(carried.current);
    carried.temporary = NewSlot(current.dtype, current.shape, Home::kArena, current.memory);
    code_->at(carried.temporary).last = position_;
  }
  CarryOnDevices(*loop, variables);
  return Status::Ok();
}

Status Emitter::EmitLoop(FrameId frame, std::vector<Operation>* block) {
  TENON_ASSIGN_OR_RETURN(const bool is_whole, EmitWholeLoop(frame, block));
  if (is_whole) return Status::Ok();
  const Frame& f = loops_.frame(frame);
  const LoopId index = code_->loops.next_id();
  code_->loops.emplace_back();
  loop_parent_.push_back(loop_stack_.empty() ? LoopId() : loop_stack_.back());
  Loop loop;
  Variables variables;
  TENON_RETURN_IF_ERROR(EmitInvariants(f, block));
  TENON_RETURN_IF_ERROR(EnterVariables(f, &loop, &variables, block));
  if (refused()) return Status::Ok();
  Operation& operation = Push(block, Operation::Kind::kLoop, f.condition);
  operation.loop = index;
  loop_stack_.push_back(index);
  TENON_RETURN_IF_ERROR(EmitFrame(frame, Part::kCondition, &loop.condition_block));
  if (refused()) return Status::Ok();
  TENON_ASSIGN_OR_RETURN(loop.condition, SlotOf({f.condition, 0}));
  Use(loop.condition);
  ++position_;
  TENON_RETURN_IF_ERROR(EmitFrame(frame, Part::kBody, &loop.body_block));
  if (refused()) return Status::Ok();
  TENON_RETURN_IF_ERROR(CloseVariables(f, variables, &loop));
  if (refused()) return Status::Ok();
  loop.end = position_++;
  loop_stack_.pop_back();
  const auto live_to_the_end = [&](SlotId slot) { code_->at(slot).last = std::max(code_->at(slot).last, loop.end); };
  for (const auto& carried : loop.carried) live_to_the_end(carried.current);
  for (SlotId slot : extend_[index]) live_to_the_end(slot);
  extend_.erase(index);
  code_->loop(index) = std::move(loop);
  return Status::Ok();
}

// The copies between turns of what lies in a device's memory: to the temporaries first.
void Emitter::CarryOnDevices(Loop& loop, const Variables& variables) {
  for (const bool first : {true, false})
    for (size_t i = 0; i < variables.size(); ++i) {
      const Loop::Carried& carried = loop.carried[i];
      if (!carried.queued || (first && !carried.through_temporary)) continue;
      const SlotId from = !first && carried.through_temporary ? carried.temporary : carried.next;
      const SlotId to = first ? carried.temporary : carried.current;
      Use(from);
      code_->root(to).last = std::max(code_->root(to).last, position_);
      PushTransfer(from, to, variables[i].second->merge, &loop.body_block);
    }
}

// Whether a slot's value may be the memory of that root.
bool Emitter::MayStandIn(SlotId slot, SlotId root) const {
  std::vector<SlotId> left = {code_->RootOf(slot)};
  std::unordered_set<SlotId> seen;
  while (!left.empty()) {
    const SlotId own = left.back();
    left.pop_back();
    if (own == root) return true;
    if (code_->at(own).home != Home::kSelected || !seen.insert(own).second) continue;
    for (SlotId side : code_->at(own).sides) left.push_back(code_->RootOf(side));
  }
  return false;
}

}  // namespace tenon::exec
