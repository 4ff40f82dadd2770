// SPDX-License-Identifier: Apache-2.0
// Gate: updates that some steps leave out.
//
// Values that go through While() are dead where the step does not count; what is made of them does not run, and what it
// would change stays.
#ifndef TENON_SDK_TRAIN_OPTIMIZERS_GATE_H_
#define TENON_SDK_TRAIN_OPTIMIZERS_GATE_H_

#include <vector>

#include "tenon/train/model.h"

namespace tenon::train {

class Gate {
 public:
  // counts: one bool.
  Gate(Graph& graph, Output counts) : graph_(graph), counts_(counts) {}

  Output While(Output value) { return graph_.AddNode("Switch", {value, counts_}).output(1); }
  // A node that has run when these did, or were left out.
  Operation Either(const std::vector<Operation>& gated) {
    // One side is dead; the merge takes the other.
    const Operation sides = graph_.AddNode("Switch", {graph_.Const(0.0f), counts_});
    Output done;
    {
      auto after = graph_.ControlDependencies(gated);
      done = graph_.Op("Identity", {sides.output(1)});
    }
    return graph_.AddNode("Merge", {sides.output(0), done});
  }

 private:
  Graph& graph_;
  Output counts_;
};

}  // namespace tenon::train

#endif  // TENON_SDK_TRAIN_OPTIMIZERS_GATE_H_
