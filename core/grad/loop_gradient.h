// SPDX-License-Identifier: Apache-2.0
// LoopGradient: the gradient of one loop: a loop that counts the turns down, with a variable for each forward variable
// that may carry a gradient, and one for each invariant, which gathers what the turns add: sums, or rows one after the
// other where a turn reads rows of something large. A variable's handle is an invariant whose gradient is its value's.
#ifndef TENON_CORE_GRAD_LOOP_GRADIENT_H_
#define TENON_CORE_GRAD_LOOP_GRADIENT_H_

#include <functional>
#include <utility>
#include <vector>

#include "core/grad/backward_loop.h"
#include "core/grad/between.h"
#include "core/grad/forward_values.h"
#include "core/grad/stacks.h"
#include "core/grad/sums.h"
#include "core/grad/turn_variable.h"

namespace tenon::grad {

class LoopGradient {
 public:
  struct Parts {  // of the whole; all outlive it
    graph::Builder* builder;
    ForwardGraph* forward;
    const Stacks* stacks;
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
  // A loop variable with all switches on the loop's condition that it has: what is pushed in turns alone has one of its
  // own.
  struct Variable : graph::LoopVariable {
    std::vector<graph::NodeId> switches;
  };
  static std::vector<Variable> VariablesOf(const graph::Graph& graph, const graph::Frame& frame);

  Result<bool> Arrives(Arrived* arrived);
  Result<bool> StacksArrive(Arrived* arrived);
  Status CheckForm() const;
  void NameLoop();
  Result<graph::Edge> CountTurns();
  Status CountDown(graph::Edge count);
  Status OpenVariables(Arrived* arrived, Arrived* inside);
  Result<graph::Edge> InitialOf(const graph::LoopVariable& variable, Arrived* arrived);
  // What `make` adds in the frame around the loop.
  template <typename Made>
  Result<Made> Outside(const std::function<Result<Made>()>& make);
  Result<graph::Edge> ZerosOutside(graph::Edge like, DType type = TENON_DT_INVALID);
  Result<graph::Edge> ZerosInTurn(const Variable& variable, const TurnVariable& made);
  Result<TurnVariable> Open(graph::Edge initial);
  Result<tenon_gradient> TotalOf(const Variable& variable, Arrived* inside);
  Status CloseVariables(Arrived* inside, Arrived* arrived);
  Status CloseHandles(Arrived* inside, Arrived* arrived);
  bool PassesOn(const Variable& variable) const;
  Status CloseInvariants(Arrived* inside, Arrived* arrived);
  Status Gather(const tenon_gradient& in_turn, graph::Edge outside, Arrived* arrived);
  Status GatherSums(const tenon_gradient& in_turn, graph::Edge outside, Arrived* arrived);
  Status GatherRows(const tenon_gradient& in_turn, graph::Edge outside, Arrived* arrived);
  bool IsSmall(graph::Edge value);
  Status CloseStacks(Arrived* arrived);
  Status OrderTurnsAround();
  bool Carries(graph::NodeId node) const;

  const Parts& parts_;
  graph::Builder* builder_;
  graph::Graph& graph_;
  const graph::Frame& frame_;
  Sums& sums_;
  BackwardLoop back_;
  std::vector<Variable> variables_;
  std::vector<std::pair<const Variable*, TurnVariable>> carried_;
};

}  // namespace tenon::grad

#endif  // TENON_CORE_GRAD_LOOP_GRADIENT_H_
