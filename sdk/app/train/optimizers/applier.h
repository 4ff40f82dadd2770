// SPDX-License-Identifier: Apache-2.0
// Applier: the nodes that apply one gradient to one variable, by the formulas of optimizer.h.
#ifndef TENON_SDK_TRAIN_OPTIMIZERS_APPLIER_H_
#define TENON_SDK_TRAIN_OPTIMIZERS_APPLIER_H_

#include <string>
#include <vector>

#include "tenon/train/model.h"
#include "tenon/train/optimizer.h"

namespace tenon::train {

// Rows one below the other; one alone is itself.
Output JoinRows(Graph& graph, std::vector<Output> parts);

class Applier {
 public:
  // The options must outlive it.
  Applier(Model& model, Output learning_rate, const OptimizerOptions& options);

  // rows: those that the gradient's values are of; not valid: it is whole.
  Operation Apply(const Variable& variable, Output gradient, Output rows) {
    return rows.valid() ? ApplyRows(variable, gradient, rows) : Apply(variable, gradient);
  }
  Operation Apply(const Variable& variable, Output gradient);
  // Changes the rows that `indices` name; the values of a row that comes twice are added first, as a dense gradient
  // would have them.
  Operation ApplyRows(const Variable& variable, Output values, Output indices);
  // What changes once a step, after all variables.
  std::vector<Operation> Finish(const std::vector<Operation>& applied);

 private:
  // What an optimizer of averages makes of a gradient, for whole variables and for rows: what is subtracted from the
  // variable, and its slots' next values.
  struct Step {
    Output amount;
    std::vector<Output> slots;
  };
  Step Averaged(Output g, const std::vector<Output>& slots);
  Step RmsProp(Output g, const std::vector<Output>& slots);
  Step Adadelta(Output g, const std::vector<Output>& slots);
  std::vector<const Variable*> SlotsOf(const Variable& variable);

  Operation GradientDescent(const Variable& variable, Output g);
  Operation Momentum(const Variable& variable, Output g);
  Operation Adam(const Variable& variable, Output g);
  Operation Adagrad(const Variable& variable, Output g);
  Operation OfAverages(const Variable& variable, Output g);
  Operation AdagradRows(const Variable& variable, Output g, Output rows);
  Operation MomentumRows(const Variable& variable, Output g, Output rows);
  Operation AdamRows(const Variable& variable, Output g, Output rows);
  Operation OfAveragesRows(const Variable& variable, Output g, Output rows);
  Output AdamRate();  // the learning rate with what averages that began at 0 lack

  Output Constant(float value) { return graph_.Const(value); }
  Output Mul(Output a, Output b) { return graph_.Op("Mul", {a, b}); }
  Output Add(Output a, Output b) { return graph_.Op("AddV2", {a, b}); }
  Output Sub(Output a, Output b) { return graph_.Op("Sub", {a, b}); }
  Output Div(Output a, Output b) { return graph_.Op("RealDiv", {a, b}); }
  Output Sqrt(Output a) { return graph_.Op("Sqrt", {a}); }
  Output Square(Output a) { return graph_.Op("Square", {a}); }
  // average + (1 - rho) (value - average)
  Output Averaging(Output average, Output value) {
    return Add(average, Mul(Sub(value, average), Constant(1 - options_.decay())));
  }
  Operation Assign(const Variable& variable, Output value) {
    return graph_.AddNode("AssignVariableOp", {variable.handle, value}, {{"dtype", variable.dtype}});
  }
  Operation Subtract(const Variable& variable, Output amount) {
    if (variable.reference) return graph_.AddNode("AssignSub", {variable.handle, amount}, {{"T", variable.dtype}});
    return graph_.AddNode("AssignSubVariableOp", {variable.handle, amount}, {{"dtype", variable.dtype}});
  }
  Operation ChangeRows(const char* op, const Variable& variable, Output rows, Output values) {
    return graph_.AddNode(op, {variable.handle, rows, values}, {{"dtype", variable.dtype}});
  }
  const Variable& Slot(const Variable& variable, const char* name, float initial = 0) {
    return model_.State(variable.name + "/" + name, variable.shape, initial, variable.device);
  }
  // Fused ops change resources alone.
  bool Fused(const Variable& variable) const { return options_.fused && !variable.reference; }
  Operation Both(const Operation& a, const Operation& b) { return Group(graph_, {a, b}, "apply"); }

  Model& model_;
  Graph& graph_;
  Output rate_;
  const OptimizerOptions& options_;
  const Variable* beta1_power_ = nullptr;
  const Variable* beta2_power_ = nullptr;
};

}  // namespace tenon::train

#endif  // TENON_SDK_TRAIN_OPTIMIZERS_APPLIER_H_
