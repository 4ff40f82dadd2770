// SPDX-License-Identifier: Apache-2.0
#include "core/exec/lower/program_writer.h"

#include <algorithm>
#include <climits>
#include <unordered_set>

#include "core/graph/graph.h"

namespace tenon::exec {

using graph::Edge;
using graph::Node;

SlotId ProgramWriter::NewSlot(DType dtype, Shape shape, Home home, int32_t memory) {
  Slot slot;
  slot.dtype = dtype;
  slot.memory = memory;
  slot.shape = std::move(shape);
  slot.home = home;
  if (slot.shape.fully_known())
    if (auto bytes = ByteSize(dtype, slot.shape); bytes.ok()) slot.bytes = static_cast<uint64_t>(*bytes);
  slot.first = position_;
  def_loop_.push_back(loop_stack_.empty() ? LoopId() : loop_stack_.back());
  return code_.slots.push_back(std::move(slot));
}

SlotId ProgramWriter::ConstantSlot(Tensor tensor, int32_t memory) {
  const SlotId slot = NewSlot(tensor.dtype(), tensor.shape(), Home::kConstant, memory);
  code_.at(slot).constant = std::move(tensor);
  return slot;
}

Result<SlotId> ProgramWriter::SlotOf(Edge edge) {
  if (!edge.node) return InvalidArgument("an input of a node is open");
  auto& slots = slot_of_[edge.node];
  if (slots.empty()) slots.resize(graph_.node(edge.node).output_types.size());
  SlotId& slot = slots[edge.index];
  if (slot) return slot;
  const Node& node = graph_.node(edge.node);
  if (const int feed = plan_.FeedOf(edge); feed >= 0) {
    slot = NewSlot(plan_.FeedType(feed), code_.feed_shapes[feed], Home::kFeed, plan_.MemoryOf(edge));
    code_.at(slot).feed = feed;
  } else if (node.has(TENON_OP_CONSTANT) && node.FindAttr("value") != nullptr) {
    slot = ConstantSlot(node.FindAttr("value")->tensor(), plan_.MemoryOf(edge));
  } else if (facts_.Known(edge)) {
    slot = ConstantSlot(facts_.of(edge).value, plan_.MemoryOf(edge));
  } else {
    return Internal(StrCat("output ", edge.index, " of ", node.Describe(), " is used before it is made"));
  }
  return slot;
}

void ProgramWriter::SetSlot(Edge edge, SlotId slot) {
  auto& slots = slot_of_[edge.node];
  if (slots.empty()) slots.resize(graph_.node(edge.node).output_types.size());
  // A fed output keeps its feed.
  if (plan_.FeedOf(edge) < 0) slots[edge.index] = slot;
}

void ProgramWriter::Use(SlotId slot) {
  const SlotId root = code_.RootOf(slot);
  code_.at(root).last = std::max(code_.at(root).last, position_);
  for (LoopId loop : loop_stack_) {
    if (DefinedWithin(root, loop)) continue;
    extend_[loop].push_back(root);
    break;
  }
}

bool ProgramWriter::DefinedWithin(SlotId slot, LoopId loop) const {
  for (LoopId at = def_loop_[slot]; at; at = loop_parent_[at])
    if (at == loop) return true;
  return false;
}

Operation& ProgramWriter::Push(std::vector<Operation>* block, Operation::Kind kind, graph::NodeId node) {
  Operation operation;
  operation.kind = kind;
  operation.node = node;
  operation.position = position_++;
  block->push_back(std::move(operation));
  return block->back();
}

LoopId ProgramWriter::NewLoop() {
  const LoopId index = code_.loops.next_id();
  code_.loops.emplace_back();
  loop_parent_.push_back(loop_stack_.empty() ? LoopId() : loop_stack_.back());
  return index;
}

void ProgramWriter::CloseLoop(LoopId index, Loop loop) {
  loop.end = position_++;
  loop_stack_.pop_back();
  const auto live_to_the_end = [&](SlotId slot) { code_.at(slot).last = std::max(code_.at(slot).last, loop.end); };
  for (const auto& carried : loop.carried) live_to_the_end(carried.current);
  for (SlotId slot : extend_[index]) live_to_the_end(slot);
  extend_.erase(index);
  code_.loop(index) = std::move(loop);
}

void ProgramWriter::KeepToTheEnd(SlotId slot) {
  code_.root(slot).last = INT_MAX;
}

std::vector<SlotId> ProgramWriter::RootsOf(std::vector<SlotId> slots) const {
  for (SlotId& slot : slots) slot = code_.RootOf(slot);
  return slots;
}

bool ProgramWriter::MayStandIn(SlotId slot, SlotId root) const {
  std::vector<SlotId> left = {code_.RootOf(slot)};
  std::unordered_set<SlotId> seen;
  while (!left.empty()) {
    const SlotId own = left.back();
    left.pop_back();
    if (own == root) return true;
    if (code_.at(own).home != Home::kSelected || !seen.insert(own).second) continue;
    for (SlotId side : code_.at(own).sides) left.push_back(code_.RootOf(side));
  }
  return false;
}

}  // namespace tenon::exec
