// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/train/optimizers/accumulator.h"

#include <string>

namespace tenon::train {

Accumulator::Accumulator(Model& model, int64_t steps) : model_(model), graph_(model.graph()), steps_(steps) {
  if (steps < 1)
    graph_.Fail(Status(Code::kInvalidArgument,
                       "gradients of " + std::to_string(steps) + " steps are to be accumulated; one is the least"));
  if (steps <= 1) return;
  count_ = &model.Counter("accumulated_steps");
  counted_ = graph_.Op("AddV2", {count_->value, graph_.Const(int64_t{1})});
  last_ = graph_.Op("GreaterEqual", {counted_, graph_.Const(steps)});
  gate_.emplace(graph_, last_);
}

Output Accumulator::Mean(const Variable& variable, Output gradient) {
  if (steps_ <= 1) return gradient;
  if (variable.rows) {
    graph_.Fail(
        Status(Code::kUnimplemented, "'" + variable.name +
                                         "' is changed by rows; a sum of its gradients would be as large as the table. "
                                         "Train it without accumulation"));
    return gradient;
  }
  const Variable& sum = model_.State(variable.name + "/accumulated", variable.shape, 0, variable.device);
  const Output all = graph_.Op("AddV2", {sum.value, gradient});
  kept_.push_back(Assign(sum, graph_.Op("SelectV2", {last_, graph_.Op("ZerosLike", {all}), all})));
  return gate_->While(graph_.Op("Mul", {all, graph_.Const(1.0f / static_cast<float>(steps_))}));
}

Operation Accumulator::Finish(const Operation& applied) {
  if (steps_ <= 1) return applied;
  std::vector<Operation> all = kept_;
  all.push_back(gate_->Either({applied}));
  all.push_back(Assign(*count_, graph_.Op("SelectV2", {last_, graph_.Const(int64_t{0}), counted_})));
  return Group(graph_, all, "update");
}

}  // namespace tenon::train
