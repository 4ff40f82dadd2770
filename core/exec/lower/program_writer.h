// SPDX-License-Identifier: Apache-2.0
// ProgramWriter: a program as it is written: operations in the order in which they are submitted, a slot for each
// value, and how long each slot is needed.
#ifndef TENON_CORE_EXEC_LOWER_PROGRAM_WRITER_H_
#define TENON_CORE_EXEC_LOWER_PROGRAM_WRITER_H_

#include <unordered_map>
#include <vector>

#include "core/exec/lower/facts.h"
#include "core/exec/program/program_code.h"

namespace tenon::exec {

class ProgramWriter {
 public:
  // All outlive it.
  ProgramWriter(const Plan* plan, const Facts* facts, ProgramCode* code)
      : plan_(*plan), graph_(plan->graph()), facts_(*facts), code_(*code), slot_of_(graph_.size()) {}

  Operation& Push(std::vector<Operation>* block, Operation::Kind kind, graph::NodeId node);
  // Operations that were pushed so far, and ends of parts.
  int32_t position() const { return position_; }
  void EndPart() { ++position_; }

  SlotId NewSlot(DType dtype, Shape shape, Home home, int32_t memory = 0);
  // The slot of an edge; feeds and constants get theirs here.
  Result<SlotId> SlotOf(graph::Edge edge);
  void SetSlot(graph::Edge edge, SlotId slot);
  // Whether one of the node's outputs has a slot.
  bool HasSlots(graph::NodeId id) const { return !slot_of_[id].empty(); }
  // Notes that the slot is read now. Inside a loop, what was made outside it is needed until the loop ends. What a
  // select may show is used as long as the select is (ExtendSelected).
  void Use(SlotId slot);
  void KeepToTheEnd(SlotId slot);
  std::vector<SlotId> RootsOf(std::vector<SlotId> slots) const;
  // Whether a slot's value may be the memory of that root.
  bool MayStandIn(SlotId slot, SlotId root) const;

  // Loops that are open, the outermost first.
  const std::vector<LoopId>& around() const { return loop_stack_; }
  LoopId NewLoop();
  void OpenLoop(LoopId loop) { loop_stack_.push_back(loop); }
  // What is carried, and what was used of before, is needed until here.
  void CloseLoop(LoopId index, Loop loop);

 private:
  SlotId ConstantSlot(Tensor tensor, int32_t memory);
  bool DefinedWithin(SlotId slot, LoopId loop) const;

  const Plan& plan_;
  const graph::Graph& graph_;
  const Facts& facts_;
  ProgramCode& code_;
  graph::NodeMap<std::vector<SlotId>> slot_of_;
  int32_t position_ = 0;
  std::vector<LoopId> loop_stack_;
  IdVector<LoopId, LoopId> loop_parent_;
  IdVector<SlotId, LoopId> def_loop_;                        // the innermost loop at their making
  std::unordered_map<LoopId, std::vector<SlotId>> extend_;  // what is used until its end
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_LOWER_PROGRAM_WRITER_H_
