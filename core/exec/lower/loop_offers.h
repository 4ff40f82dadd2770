// SPDX-License-Identifier: Apache-2.0
// LoopOffers: loops as a compiler that takes them as wholes is told of them (tenon/ext/draft/compile_loop.h): without
// what only steers.
#ifndef TENON_CORE_EXEC_LOWER_LOOP_OFFERS_H_
#define TENON_CORE_EXEC_LOWER_LOOP_OFFERS_H_

#include <optional>

#include "core/exec/lower/facts.h"
#include "core/exec/plan/claims.h"
#include "core/exec/plan/offered_loop.h"

namespace tenon::exec {

class LoopOffers {
 public:
  // Both outlive it.
  LoopOffers(const Plan* plan, const Facts* facts)
      : plan_(*plan), graph_(plan->graph()), facts_(*facts), loops_(facts->loops()) {}

  // None: the frame is no loop that may be offered.
  std::optional<OfferedLoop> Of(graph::FrameId frame, const Claims::LoopCompiler& by) const;

 private:
  // What the edge's value comes from in a turn: a variable's current (its merge), a node that computes, or what is made
  // outside.
  graph::Edge SourceInLoop(graph::FrameId frame, graph::Edge edge) const;
  // Of any loop: a constant is, wherever it stands.
  bool IsFromOutside(graph::Edge edge) const;
  // Whether the frame is a loop of one part, all of it nodes of the compiler's device that it may have.
  bool Fill(graph::FrameId index, const Claims::LoopCompiler& by, OfferedLoop* out) const;
  // What enters and leaves. false: some of it is made in the loop, by what is not offered, or lies in another memory
  // than the device's.
  bool FindBorder(graph::FrameId frame, const SessionDevice& device, OfferedLoop* loop) const;

  const Plan& plan_;
  const graph::Graph& graph_;
  const Facts& facts_;
  const graph::LoopAnalysis& loops_;
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_LOWER_LOOP_OFFERS_H_
