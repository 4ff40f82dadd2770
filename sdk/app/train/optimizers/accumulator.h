// SPDX-License-Identifier: Apache-2.0
// Accumulator: the gradients of several steps, applied by the last of them (OptimizerOptions::accumulate).
//
// Each trainable variable has a sum ("<variable>/accumulated") and the model one count ("accumulated_steps"), which are
// variables too, so that a checkpoint between two updates holds what a run needs to go on.
#ifndef TENON_SDK_TRAIN_OPTIMIZERS_ACCUMULATOR_H_
#define TENON_SDK_TRAIN_OPTIMIZERS_ACCUMULATOR_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "sdk/app/train/optimizers/gate.h"
#include "tenon/train/model.h"

namespace tenon::train {

class Accumulator {
 public:
  // steps 1: every step applies its own gradients. Fewer are INVALID_ARGUMENT, which sticks to the graph.
  Accumulator(Model& model, int64_t steps);

  // Adds the gradient, and gives the mean of the steps'; dead in a step that does not apply.
  Output Mean(const Variable& variable, Output gradient);
  // A node that has run when the gradients were added, and in every steps-th step applied.
  Operation Finish(const Operation& applied);

 private:
  Operation Assign(const Variable& variable, Output value) {
    return graph_.AddNode("AssignVariableOp", {variable.handle, value}, {{"dtype", variable.dtype}});
  }

  Model& model_;
  Graph& graph_;
  const int64_t steps_;
  Output counted_, last_;
  const Variable* count_ = nullptr;
  std::optional<Gate> gate_;
  std::vector<Operation> kept_;
};

}  // namespace tenon::train

#endif  // TENON_SDK_TRAIN_OPTIMIZERS_ACCUMULATOR_H_
