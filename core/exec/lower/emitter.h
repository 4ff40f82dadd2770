// SPDX-License-Identifier: Apache-2.0
// Emitter: writes a plan's operations, in the order in which they are submitted, and a slot for each value. Memory is
// not shared yet, and nothing waits.
#ifndef TENON_CORE_EXEC_LOWER_EMITTER_H_
#define TENON_CORE_EXEC_LOWER_EMITTER_H_

#include <functional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/exec/lower/facts.h"
#include "core/exec/lower/queue_chooser.h"
#include "core/exec/program/program_code.h"
#include "core/graph/branch_analysis.h"

namespace tenon::exec {

struct OfferedLoop;

// Why a graph needs the dynamic executor.
struct Refusal {
  std::string text;  // "": it does not
  bool for_these_shapes = false;  // with other feeds it may not
};

class Emitter {
 public:
  // All outlive it.
  Emitter(const Plan* plan, const Facts* facts, const graph::BranchAnalysis* branches, ProgramCode* code);

  // An error: of the graph. What cannot be straight code is refused.
  Status Run();
  const Refusal& refusal() const { return refusal_; }

 private:
  // The blocks of the regions that are being emitted, the outermost first.
  struct OpenBranches {
    std::vector<Operation>* base;
    std::vector<std::pair<graph::RegionId, std::vector<Operation>*>> stack;
    std::vector<Operation>* Top() const { return stack.empty() ? base : stack.back().second; }
  };
  // The items of a frame, in order: all of them, or those of its condition part, or of its body.
  enum class Part { kAll, kCondition, kBody };
  using Variables =
      std::vector<std::pair<SlotId, const graph::LoopVariable*>>;  // with the slot of each one's current value

  void GiveUp(std::string why, bool for_these_shapes = false) {
    if (refusal_.text.empty()) refusal_ = {std::move(why), for_these_shapes};
  }
  bool refused() const { return !refusal_.text.empty(); }
  const SessionDevice& DeviceOfMemory(int32_t memory) const { return plan_.env().devices[memory]; }

  // Slots and nodes (emit.cc).
  SlotId NewSlot(DType dtype, Shape shape, Home home, int32_t memory = 0);
  SlotId ConstantSlot(Tensor tensor, int32_t memory);
  Result<SlotId> SlotOf(graph::Edge edge);
  void SetSlot(graph::Edge edge, SlotId slot);
  void Use(SlotId slot);
  bool DefinedWithin(SlotId slot, LoopId loop) const;
  void KeepToTheEnd(SlotId slot);
  std::vector<SlotId> RootsOf(std::vector<SlotId> slots) const;
  bool Supported();
  void CheckExchange(const graph::Node& node);
  Operation& Push(std::vector<Operation>* block, Operation::Kind kind, graph::NodeId node);
  Status EmitNode(graph::NodeId id, std::vector<Operation>* block);
  Result<SlotId> EmitRead(SlotId reference, const graph::Node& node, graph::Edge edge, std::vector<Operation>* block);
  Status EmitExchange(const graph::Node& node, std::vector<Operation>* block);
  SlotId EmitTransfer(SlotId from, const graph::Node& node, std::vector<Operation>* block);
  void PushTransfer(SlotId from, SlotId to, graph::NodeId node, std::vector<Operation>* block);
  Status EmitKernel(const graph::Node& node, std::vector<Operation>* block);
  Status EmitView(const graph::Node& node, SlotId input, const graph::OutputFacts& facts,
                  std::vector<Operation>* block);
  QueueId ChooseQueue(const graph::Node& node, const NodeRunner& runner, Operation::Kind kind,
                      const std::vector<SlotId>& inputs);
  void KeepForQueue(QueueId queue, const SessionDevice& device, const std::vector<SlotId>& inputs);
  double SecondsOf(const graph::Node& node, const SessionDevice& device) const;
  Status EmitFetches();

  // Control flow (emit_control_flow.cc).
  Status EmitFrame(graph::FrameId frame, Part part, std::vector<Operation>* block);
  Result<std::vector<Operation>*> BlockOf(graph::RegionId region, OpenBranches* open);
  graph::Edge OnHost(graph::Edge edge, graph::RegionId around);
  Result<SlotId> PredicateSlot(graph::Edge predicate, graph::RegionId around);
  bool MayEmit(const graph::Node& node) const;
  bool IsVariableSwitch(graph::NodeId id) const;
  Status EmitSwitch(const graph::Node& node, std::vector<Operation>* block);
  Status EmitSelect(const graph::Node& node, const graph::BranchMerge& merge, std::vector<Operation>* block);
  Status EmitLoop(graph::FrameId frame, std::vector<Operation>* block);
  Status EmitInvariants(const graph::Frame& frame, std::vector<Operation>* block);
  Status EnterVariables(const graph::Frame& frame, Loop* loop, Variables* variables, std::vector<Operation>* block);
  Status CloseVariables(const graph::Frame& frame, const Variables& variables, Loop* loop);
  // Loops that a compiler takes (emit_whole_loop.cc).
  graph::Edge SourceInLoop(graph::FrameId frame, graph::Edge edge) const;
  bool IsFromOutside(graph::Edge edge) const;
  bool Offer(graph::FrameId frame, const Claims::LoopCompiler& by, OfferedLoop* out) const;
  bool FindBorder(graph::FrameId frame, const SessionDevice& device, OfferedLoop* loop) const;
  Result<bool> EmitWholeLoop(graph::FrameId frame, std::vector<Operation>* block);
  void CarryOnDevices(Loop& loop, const Variables& variables);
  bool MayStandIn(SlotId slot, SlotId root) const;

  // Sets of nodes that a compiler took (emit_claims.cc).
  bool HasClaims() const;
  int32_t ClaimOf(graph::NodeId id) const;
  bool RunTogether(graph::NodeId a, graph::NodeId b) const;
  std::vector<graph::LoopAnalysis::Item> ClaimsAsWholes(const std::vector<graph::LoopAnalysis::Item>& items,
                                                        graph::FrameId frame) const;
  std::vector<graph::LoopAnalysis::Item> InOrder(const std::vector<graph::LoopAnalysis::Item>& items,
                                                 graph::FrameId frame, std::vector<int32_t>* stuck) const;
  struct Border {
    std::vector<graph::Edge> in, out;
    bool shapes_known = true;
  };
  Status EmitClaim(int32_t number, std::vector<Operation>* block);
  Status EmitTiles(const SessionDevice& device, const std::vector<graph::NodeId>& nodes, std::vector<Operation>* block);
  Status EmitWhole(std::shared_ptr<const CompiledRegion> region, const SessionDevice& device,
                   const std::vector<graph::NodeId>& nodes, const Border& border, std::vector<Operation>* block);
  Border BorderOf(const std::vector<graph::NodeId>& nodes);
  bool IsReadOutside(graph::Edge edge, const std::function<bool(graph::NodeId)>& inside);
  Status EmitRegion(std::shared_ptr<const CompiledRegion> region, const SessionDevice& device,
                    const std::vector<graph::Edge>& in, const std::vector<graph::Edge>& out,
                    std::vector<Operation>* block);

  const Plan& plan_;
  const graph::Graph& graph_;
  const Facts& facts_;
  const graph::LoopAnalysis& loops_;
  const graph::BranchAnalysis& branches_;
  ProgramCode* const code_;
  QueueChooser chooser_;
  std::set<int32_t> emitted_claims_;
  mutable std::vector<int8_t> whole_claims_;  // by claim: -1 not looked at
  graph::NodeMap<std::vector<std::pair<int32_t, graph::NodeId>>> readers_;  // of each node: output, reader
  Refusal refusal_;
  graph::NodeMap<std::vector<SlotId>> slot_of_;
  int32_t position_ = 0;
  std::vector<LoopId> loop_stack_;
  IdVector<LoopId, LoopId> loop_parent_;
  IdVector<SlotId, LoopId> def_loop_;  // the innermost loop at their making
  std::unordered_map<LoopId, std::vector<SlotId>> extend_;  // what is used until its end
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_LOWER_EMITTER_H_
