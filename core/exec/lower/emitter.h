// SPDX-License-Identifier: Apache-2.0
// Emitter: a plan's nodes as operations of a program. Memory is not shared yet, and nothing waits.
#ifndef TENON_CORE_EXEC_LOWER_EMITTER_H_
#define TENON_CORE_EXEC_LOWER_EMITTER_H_

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/exec/lower/borders.h"
#include "core/exec/lower/claim_order.h"
#include "core/exec/lower/facts.h"
#include "core/exec/lower/program_writer.h"
#include "core/exec/lower/queue_assignment.h"
#include "core/exec/program/program_code.h"
#include "core/graph/branch_analysis.h"

namespace tenon::exec {

// Why a graph needs the dynamic executor.
struct Refusal {
  std::string text;  // "": it does not
  bool for_these_shapes = false;  // with other feeds it may not
};

class Emitter {
 public:
  // All outlive it.
  Emitter(const Plan* plan, const Facts* facts, const graph::BranchAnalysis* branches, ProgramCode* code);

  // Of a graph that is not refused (WhyNotStraight). An error: of the graph. What cannot be straight code after all is
  // refused.
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
  // With the slot of each one's current value.
  using Variables = std::vector<std::pair<SlotId, const graph::LoopVariable*>>;

  void GiveUp(std::string why, bool for_these_shapes = false) {
    if (refusal_.text.empty()) refusal_ = {std::move(why), for_these_shapes};
  }
  bool refused() const { return !refusal_.text.empty(); }
  const SessionDevice& DeviceOfMemory(int32_t memory) const { return plan_.env().devices[memory]; }

  // Nodes (emit.cc).
  Status EmitNode(graph::NodeId id, std::vector<Operation>* block);
  Result<SlotId> EmitRead(SlotId reference, const graph::Node& node, graph::Edge edge, std::vector<Operation>* block);
  Status EmitExchange(const graph::Node& node, std::vector<Operation>* block);
  SlotId EmitTransfer(SlotId from, const graph::Node& node, std::vector<Operation>* block);
  void PushTransfer(SlotId from, SlotId to, graph::NodeId node, std::vector<Operation>* block);
  Status EmitKernel(const graph::Node& node, std::vector<Operation>* block);
  Status EmitView(const graph::Node& node, SlotId input, const graph::OutputFacts& facts,
                  std::vector<Operation>* block);
  Status EmitFetches();

  // Control flow (emit_control_flow.cc).
  Status EmitFrame(graph::FrameId frame, Part part, std::vector<Operation>* block);
  Result<std::vector<Operation>*> BlockOf(graph::RegionId region, OpenBranches* open);
  graph::Edge OnHost(graph::Edge edge, graph::RegionId around);
  Result<SlotId> PredicateSlot(graph::Edge predicate, graph::RegionId around);
  Status EmitSwitch(const graph::Node& node, std::vector<Operation>* block);
  Status EmitSelect(const graph::Node& node, const graph::BranchMerge& merge, std::vector<Operation>* block);
  Status EmitLoop(graph::FrameId frame, std::vector<Operation>* block);
  Status EmitInvariants(const graph::Frame& frame, std::vector<Operation>* block);
  Status EnterVariables(const graph::Frame& frame, Loop* loop, Variables* variables, std::vector<Operation>* block);
  Status CloseVariables(const graph::Frame& frame, const Variables& variables, Loop* loop);
  Result<bool> EmitWholeLoop(graph::FrameId frame, std::vector<Operation>* block);
  void CarryOnDevices(Loop& loop, const Variables& variables);

  // Sets of nodes that a compiler took (emit_claims.cc).
  Status EmitClaim(int32_t number, std::vector<Operation>* block);
  Status EmitTiles(const SessionDevice& device, const std::vector<graph::NodeId>& nodes, std::vector<Operation>* block);
  Status EmitWhole(std::shared_ptr<const CompiledRegion> region, const SessionDevice& device,
                   const std::vector<graph::NodeId>& nodes, const Border& border, std::vector<Operation>* block);
  Status EmitRegion(std::shared_ptr<const CompiledRegion> region, const SessionDevice& device,
                    const std::vector<graph::Edge>& in, const std::vector<graph::Edge>& out,
                    std::vector<Operation>* block);

  const Plan& plan_;
  const graph::Graph& graph_;
  const Facts& facts_;
  const graph::LoopAnalysis& loops_;
  const graph::BranchAnalysis& branches_;
  ProgramCode* const code_;
  ProgramWriter writer_;
  QueueAssignment queues_;
  ClaimOrder claim_order_;
  Borders borders_;
  std::set<int32_t> emitted_claims_;
  Refusal refusal_;
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_LOWER_EMITTER_H_
