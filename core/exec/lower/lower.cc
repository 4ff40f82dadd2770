// SPDX-License-Identifier: Apache-2.0
#include "core/exec/lower/lower.h"

#include <algorithm>

#include "core/exec/lower/arena.h"
#include "core/exec/lower/releases.h"
#include "core/exec/lower/straight_line.h"
#include "core/exec/lower/synchronizer.h"
#include "core/graph/graph.h"
#include "core/tensor/allowance.h"

namespace tenon::exec {
namespace {

bool HasConditional(const Plan& plan) {
  return std::any_of(plan.order().begin(), plan.order().end(),
                     [&](graph::NodeId id) { return plan.graph().node(id).has(TENON_OP_MERGE); });
}

Status PlaceConstants(DeviceConstants* constants, ProgramCode* code) {
  for (Slot& slot : code->slots) {
    if (slot.home != Home::kConstant || slot.memory == 0) continue;
    TENON_ASSIGN_OR_RETURN(slot.constant, constants->Get(slot.constant, slot.memory));
  }
  return Status::Ok();
}

}  // namespace

Result<Lowered> Lower(const Plan& plan, const tenon_tensor_view* const* feeds, DeviceConstants* constants) {
  Lowered lowered;
  ProgramCode code;
  Facts facts(&plan);
  if (Status status = facts.Infer(feeds, &code.feed_shapes); !status.ok()) {
    // Shapes that do not fit may stand in a branch that these feeds do not take.
    TENON_RETURN_IF_ERROR(CheckAllowance());
    if (!HasConditional(plan)) return status;
    lowered.refusal = {std::string(status.message()), true};
    return lowered;
  }
  lowered.folded = facts.folded();
  TENON_RETURN_IF_ERROR(facts.FindLoops());
  const auto is_fed = [&plan](graph::Edge edge) { return plan.FeedOf(edge) >= 0; };
  const graph::BranchAnalysis branches = graph::BranchAnalysis::Run(plan.graph(), plan.order(), facts.loops(), is_fed);
  facts.FindNeeded(branches);
  lowered.refusal.text = WhyNotStraight(plan, facts, branches);
  if (!lowered.refusal.text.empty()) return lowered;
  Emitter emitter(&plan, &facts, &branches, &code);
  TENON_RETURN_IF_ERROR(emitter.Run());
  lowered.refusal = emitter.refusal();
  if (!lowered.refusal.text.empty()) return lowered;
  ShareMemory(plan.env(), &code);
  InsertReleases(&code);
  if (plan.uses_queues()) {
    TENON_RETURN_IF_ERROR(PlaceConstants(constants, &code));
    Synchronizer(plan.env(), plan.graph(), is_fed, &code).Run();
  }
  lowered.program = std::make_unique<const Program>(&plan, std::move(code));
  return lowered;
}

}  // namespace tenon::exec
