// SPDX-License-Identifier: Apache-2.0
// Loops as operations over blocks of their own; conditionals as blocks that run when a predicate has a value, and
// selects.
#include <algorithm>

#include "core/exec/lower/emitter.h"
#include "core/exec/lower/loop_offers.h"
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

namespace {

// Whether a node becomes an operation (some that may do not).
bool MayEmit(const Plan& plan, const graph::BranchAnalysis& branches, const Node& node) {
  if (branches.FindMerge(node.id) != nullptr || plan.runner(node.id) != nullptr || plan.TransferFrom(node.id) >= 0 ||
      plan.ChannelOf(node.id))
    return true;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (node.inputs[i].node && IsRef(plan.graph().TypeOf(node.inputs[i])) && !IsRef(node.input_types[i])) return true;
  return false;
}

}  // namespace

Status Emitter::EmitFrame(FrameId frame, Part part, std::vector<Operation>* block) {
  const Frame& f = loops_.frame(frame);
  TENON_ASSIGN_OR_RETURN(const std::vector<LoopAnalysis::Item> items, loops_.Items(graph_, facts_.order(), frame));
  OpenBranches open{block, {}};
  for (const LoopAnalysis::Item& item : claim_order_.any() ? claim_order_.AsWholes(items, frame) : items) {
    // A loop belongs to the part in which it is entered.
    const graph::NodeId entry = item.node ? item.node : loops_.frame(item.child).enters[0];
    bool body = f.body.contains(entry);
    if (!item.node)
      for (graph::NodeId enter : loops_.frame(item.child).enters) body = body || f.body.contains(enter);
    if (part != Part::kAll && body != (part == Part::kBody)) continue;
    const RegionId region = item.node ? branches_.region_of(item.node) : branches_.region_of_loop(item.child);
    std::vector<Operation>* into = open.Top();
    if (!item.node || MayEmit(plan_, branches_, graph_.node(item.node))) {
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
    writer_.Use(predicate);
    Operation& operation = writer_.Push(open->Top(), Operation::Kind::kBranch, opened.predicate.node);
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
    if (plan_.TransferFrom(id) >= 0 && plan_.MemoryOf({id, 0}) == 0 && writer_.HasSlots(id) &&
        branches_.IsWithin(around, branches_.region_of(id)) && branches_.Resolve({id, 0}) == edge)
      return {id, 0};
  GiveUp(StrCat("predicate '", graph_.EdgeName(edge),
                "' lies on a device, without a copy for the host where it is asked"));
  return edge;
}

Result<SlotId> Emitter::PredicateSlot(Edge predicate, RegionId around) {
  predicate = OnHost(predicate, around);
  TENON_ASSIGN_OR_RETURN(const SlotId slot, writer_.SlotOf(predicate));
  if (code_->at(slot).dtype != TENON_DT_BOOL || !code_->at(slot).shape.fully_known() || code_->at(slot).bytes != 1)
    GiveUp(StrCat("predicate '", graph_.EdgeName(predicate), "' is not known to be one bool"));
  return slot;
}

// Both sides are the value; a side is read in its region alone.
Status Emitter::EmitSwitch(const Node& node, std::vector<Operation>* block) {
  TENON_ASSIGN_OR_RETURN(SlotId slot, writer_.SlotOf(node.inputs[0]));
  if (IsRef(code_->at(slot).dtype) && !IsRef(node.output_types[0])) {
    TENON_ASSIGN_OR_RETURN(slot, EmitRead(slot, node, node.inputs[0], block));
  }
  for (int32_t side = 0; side < 2; ++side) writer_.SetSlot({node.id, side}, slot);
  return Status::Ok();
}

Status Emitter::EmitSelect(const Node& node, const BranchMerge& merge, std::vector<Operation>* block) {
  TENON_ASSIGN_OR_RETURN(const SlotId predicate, PredicateSlot(merge.predicate, branches_.region_of(node.id)));
  SlotId sides[2];
  for (int side = 0; side < 2; ++side) {
    const Edge edge = node.inputs[merge.input_of_side[side]];
    TENON_ASSIGN_OR_RETURN(sides[side], writer_.SlotOf(edge));
    if (IsRef(code_->at(sides[side]).dtype) != IsRef(node.output_types[0]))
      GiveUp(StrCat(node.Describe(), " merges a reference and a value"));
    writer_.Use(sides[side]);
  }
  writer_.Use(predicate);
  const bool same = code_->at(sides[0]).shape == code_->at(sides[1]).shape;
  const SlotId value = writer_.NewSlot(code_->at(sides[0]).dtype, same ? code_->at(sides[0]).shape : Shape::Unknown(),
                               Home::kSelected, code_->at(sides[0]).memory);
  code_->at(value).sides = {sides[0], sides[1]};
  writer_.SetSlot({node.id, 0}, value);
  std::vector<SlotId> outputs = {value};
  if (node.output_types.size() > 1) {
    outputs.push_back(writer_.NewSlot(TENON_DT_INT32, Shape(), Home::kArena));
    writer_.SetSlot({node.id, 1}, outputs.back());
  }
  Operation& operation = writer_.Push(block, Operation::Kind::kSelect, node.id);
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
    TENON_ASSIGN_OR_RETURN(SlotId slot, writer_.SlotOf(node.inputs[0]));
    if (IsRef(code_->at(slot).dtype) && !IsRef(node.output_types[0])) {
      TENON_ASSIGN_OR_RETURN(slot, EmitRead(slot, node, node.inputs[0], block));
    }
    writer_.SetSlot({enter, 0}, slot);
    writer_.Use(slot);
  }
  return Status::Ok();
}

// Where the carried values live, from the loop's start.
Status Emitter::EnterVariables(const Frame& frame, Loop* loop, Variables* variables, std::vector<Operation>* block) {
  for (const LoopVariable& variable : frame.variables) {
    if (!facts_.needed(variable.merge)) continue;
    const Node& enter = graph_.node(variable.enter);
    TENON_ASSIGN_OR_RETURN(SlotId initial, writer_.SlotOf(enter.inputs[0]));
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
    writer_.Use(initial);
    const SlotId current = writer_.NewSlot(dtype, code_->at(initial).shape, Home::kArena, code_->at(initial).memory);
    writer_.SetSlot({variable.merge, 0}, current);
    if (variable.switch_node) {
      writer_.SetSlot({variable.switch_node, 0}, current);
      writer_.SetSlot({variable.switch_node, 1}, current);
    }
    if (variable.exit) writer_.SetSlot({variable.exit, 0}, current);
    loop->carried.push_back({initial, current, {}, false, {}, code_->at(initial).memory != 0});
    if (code_->at(initial).memory != 0) PushTransfer(initial, current, variable.merge, block);
    variables->emplace_back(current, &variable);
  }
  return Status::Ok();
}

// What each variable is in the next turn.
Status Emitter::CloseVariables(const Frame& frame, const Variables& variables, Loop* loop) {
  for (size_t i = 0; i < variables.size(); ++i) {
    TENON_ASSIGN_OR_RETURN(const SlotId next, writer_.SlotOf(graph_.node(variables[i].second->next).inputs[0]));
    if (code_->at(next).bytes != code_->at(variables[i].first).bytes || !code_->at(next).shape.fully_known()) {
      GiveUp(StrCat("loop '", frame.name, "': a variable changes its shape"));
      return Status::Ok();
    }
    writer_.Use(next);
    loop->carried[i].next = next;
  }
  // A next value that is another variable's current one must be copied before that one is overwritten.
  for (auto& carried : loop->carried) {
    for (const auto& other : loop->carried)
      if (&other != &carried && writer_.MayStandIn(carried.next, code_->RootOf(other.current)))
        carried.through_temporary = true;
    if (!carried.through_temporary) continue;
    const Slot& current = code_->at(carried.current);
    carried.temporary = writer_.NewSlot(current.dtype, current.shape, Home::kArena, current.memory);
    code_->at(carried.temporary).last = writer_.position();
  }
  CarryOnDevices(*loop, variables);
  return Status::Ok();
}

Status Emitter::EmitLoop(FrameId frame, std::vector<Operation>* block) {
  TENON_ASSIGN_OR_RETURN(const bool is_whole, EmitWholeLoop(frame, block));
  if (is_whole) return Status::Ok();
  const Frame& f = loops_.frame(frame);
  const LoopId index = writer_.NewLoop();
  Loop loop;
  Variables variables;
  TENON_RETURN_IF_ERROR(EmitInvariants(f, block));
  TENON_RETURN_IF_ERROR(EnterVariables(f, &loop, &variables, block));
  if (refused()) return Status::Ok();
  Operation& operation = writer_.Push(block, Operation::Kind::kLoop, f.condition);
  operation.loop = index;
  writer_.OpenLoop(index);
  TENON_RETURN_IF_ERROR(EmitFrame(frame, Part::kCondition, &loop.condition_block));
  if (refused()) return Status::Ok();
  TENON_ASSIGN_OR_RETURN(loop.condition, writer_.SlotOf({f.condition, 0}));
  writer_.Use(loop.condition);
  writer_.EndPart();
  TENON_RETURN_IF_ERROR(EmitFrame(frame, Part::kBody, &loop.body_block));
  if (refused()) return Status::Ok();
  TENON_RETURN_IF_ERROR(CloseVariables(f, variables, &loop));
  if (refused()) return Status::Ok();
  writer_.CloseLoop(index, std::move(loop));
  return Status::Ok();
}

// Whether a compiler has taken it.
Result<bool> Emitter::EmitWholeLoop(FrameId frame, std::vector<Operation>* block) {
  if (plan_.claims() == nullptr) return false;
  const LoopOffers offers(&plan_, &facts_);
  for (const Claims::LoopCompiler& by : plan_.claims()->loop_compilers()) {
    const std::optional<OfferedLoop> loop = offers.Of(frame, by);
    if (!loop) continue;
    TENON_ASSIGN_OR_RETURN(std::shared_ptr<const CompiledRegion> region,
                           CompileLoop(plan_, *plan_.claims(), by, *loop, facts_.inference()));
    if (region == nullptr) continue;
    TENON_RETURN_IF_ERROR(EmitRegion(std::move(region), *by.device, loop->inputs, loop->outputs, block));
    return true;
  }
  return false;
}

// The copies between turns of what lies in a device's memory: to the temporaries first.
void Emitter::CarryOnDevices(Loop& loop, const Variables& variables) {
  for (const bool first : {true, false})
    for (size_t i = 0; i < variables.size(); ++i) {
      const Loop::Carried& carried = loop.carried[i];
      if (!carried.queued || (first && !carried.through_temporary)) continue;
      const SlotId from = !first && carried.through_temporary ? carried.temporary : carried.next;
      const SlotId to = first ? carried.temporary : carried.current;
      writer_.Use(from);
      code_->root(to).last = std::max(code_->root(to).last, writer_.position());
      PushTransfer(from, to, variables[i].second->merge, &loop.body_block);
    }
}

}  // namespace tenon::exec
