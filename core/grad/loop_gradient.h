// SPDX-License-Identifier: Apache-2.0
// LoopGradient: the gradient of one loop: a loop that counts the turns down, with a variable for each forward variable that may carry a
// gradient, and one for each invariant, which gathers what the turns add.
#ifndef TENON_CORE_GRAD_LOOP_GRADIENT_H_
#define TENON_CORE_GRAD_LOOP_GRADIENT_H_

#include <functional>
#include <utility>
#include <vector>

#include "core/grad/backward_loop.h"
#include "core/grad/between.h"
#include "core/grad/forward_values.h"
#include "core/grad/sums.h"
#include "core/grad/turn_variable.h"

namespace tenon::grad {

class LoopGradient {
 public:
  struct Parts {  // of the whole; all outlive it
    graph::Builder* builder;
    ForwardGraph* forward;
    const Between* between;
    Sums* sums;
    ForwardValues* values;
    // Walks back over what one turn of the loop runs.
    std::function<Status(BackwardLoop* back, Arrived* arrived)> walk;
  };
  LoopGradient(const Parts& parts, graph::FrameId frame, BackwardLoop* parent);

  // `arrived`: in the frame around the loop.
  Status Add(Arrived* arrived);

 private:
  Result<bool> Arrives(Arrived* arrived);
  Status CheckForm() const;
  void NameLoop();
  Result<graph::Edge> CountTurns();
  Status CountDown(graph::Edge count);
  Status OpenVariables(Arrived* arrived, Arrived* inside);
  Result<graph::Edge> InitialOf(const graph::LoopVariable& variable, Arrived* arrived);
  Result<graph::Edge> ZerosOutside(graph::Edge like);
  Status OpenInvariants();
  Result<TurnVariable> Open(graph::Edge initial);
  Status CloseVariables(Arrived* inside, Arrived* arrived);
  Status CloseInvariants(Arrived* inside, Arrived* arrived);
  bool Carries(graph::NodeId node) const;

  const Parts& parts_;
  graph::Builder* builder_;
  graph::Graph& graph_;
  const graph::Frame& frame_;
  Sums& sums_;
  BackwardLoop back_;
  std::vector<graph::LoopVariable> variables_;
  std::vector<std::pair<const graph::LoopVariable*, TurnVariable>> carried_;
  std::vector<std::pair<graph::NodeId, TurnVariable>> invariants_;  // by the forward Enter
};

}  // namespace tenon::grad

#endif  // TENON_CORE_GRAD_LOOP_GRADIENT_H_
