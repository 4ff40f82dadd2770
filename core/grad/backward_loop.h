// SPDX-License-Identifier: Apache-2.0
// BackwardLoop: the loop that runs a forward loop's turns again, the last first; the step itself stands for one without
// turns.
#ifndef TENON_CORE_GRAD_BACKWARD_LOOP_H_
#define TENON_CORE_GRAD_BACKWARD_LOOP_H_

#include <map>
#include <string>

#include "core/graph/attr.h"
#include "core/graph/edge.h"
#include "core/graph/loop_analysis.h"

namespace tenon::grad {

struct BackwardLoop {
  graph::FrameId frame = graph::kStep;  // the forward frame
  BackwardLoop* parent = nullptr;
  std::string name;  // the backward frame's
  int64_t parallel_iterations = 10;
  // In the forward loop: counts turns; pushes hang between the counter and its next value.
  graph::NodeId forward_turn;  // the counter in a turn
  graph::NodeId forward_add;
  graph::Edge forward_condition;  // the loop condition's output
  // In the backward loop.
  graph::NodeId turn;  // identity of the counter in a turn: what must run in each turn waits for it
  graph::NodeId subtract;
  graph::Edge condition;
  graph::Edge left;  // the counter when the loop was left, in the frame around it
  // Of forward handles of stacks, by the Enter: the parent's stack with the gradients of what was pushed on that of the
  // handle; and the one that gathers the gradients of what is popped.
  std::map<graph::NodeId, graph::Edge> gradients_of_pushed;
  std::map<graph::NodeId, graph::Edge> gradients_of_popped;
  bool shares_stacks = false;  // its turns, in all turns of the loop around it, push on one of those or pop from one
  std::map<graph::Edge, graph::Edge> forward_values;  // forward edge -> what stands for it here
  std::map<graph::Edge, graph::Edge> entered;         // value of the parent -> its constant Enter

  bool is_step() const { return frame == graph::kStep; }
  graph::AttrMap EnterAttrs(bool constant) const {
    return {{"frame_name", graph::AttrValue::String(name)},
            {"is_constant", graph::AttrValue::Bool(constant)},
            {"parallel_iterations", graph::AttrValue::Int(parallel_iterations)}};
  }
};

}  // namespace tenon::grad

#endif  // TENON_CORE_GRAD_BACKWARD_LOOP_H_
