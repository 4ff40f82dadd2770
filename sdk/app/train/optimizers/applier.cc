// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/train/optimizers/applier.h"

namespace tenon::train {

Output JoinRows(Graph& graph, std::vector<Output> parts) {
  if (parts.size() == 1) return parts[0];
  parts.push_back(graph.Const(0));
  return graph.Op("ConcatV2", parts);
}

Applier::Applier(Model& model, Output learning_rate, const OptimizerOptions& options)
    : model_(model), graph_(model.graph()), rate_(learning_rate), options_(options) {
  if (options.kind == OptimizerOptions::Kind::kAdam) {
    beta1_power_ = &model.State("beta1_power", Shape(), options.beta1);
    beta2_power_ = &model.State("beta2_power", Shape(), options.beta2);
  }
}

Operation Applier::Apply(const Variable& variable, Output gradient) {
  switch (options_.kind) {
    case OptimizerOptions::Kind::kGradientDescent:
      return GradientDescent(variable, gradient);
    case OptimizerOptions::Kind::kMomentum:
      return Momentum(variable, gradient);
    case OptimizerOptions::Kind::kAdam:
      return Adam(variable, gradient);
    case OptimizerOptions::Kind::kAdagrad:
      return Adagrad(variable, gradient);
    case OptimizerOptions::Kind::kRmsProp:
    case OptimizerOptions::Kind::kAdadelta:
      return OfAverages(variable, gradient);
  }
  return Operation();
}

Operation Applier::ApplyRows(const Variable& variable, Output values, Output indices) {
  const Operation unique = graph_.AddNode("Unique", {indices});
  const Output rows = unique.output(0);
  const Output g = graph_.Op("UnsortedSegmentSum", {values, unique.output(1), graph_.Op("Size", {rows})});
  if (options_.kind == OptimizerOptions::Kind::kGradientDescent)
    return ChangeRows("ResourceScatterAdd", variable, rows, Mul(g, Mul(rate_, Constant(-1))));
  switch (options_.kind) {
    case OptimizerOptions::Kind::kAdagrad: return AdagradRows(variable, g, rows);
    case OptimizerOptions::Kind::kMomentum: return MomentumRows(variable, g, rows);
    case OptimizerOptions::Kind::kAdam: return AdamRows(variable, g, rows);
    default: return OfAveragesRows(variable, g, rows);
  }
}

std::vector<Operation> Applier::Finish(const std::vector<Operation>& applied) {
  if (beta1_power_ == nullptr) return applied;
  auto after = graph_.ControlDependencies(applied);
  return {Assign(*beta1_power_, Mul(beta1_power_->value, Constant(options_.beta1))),
          Assign(*beta2_power_, Mul(beta2_power_->value, Constant(options_.beta2)))};
}

Operation Applier::GradientDescent(const Variable& variable, Output g) {
  if (Fused(variable)) return graph_.AddNode("ResourceApplyGradientDescent", {variable.handle, rate_, g});
  return Subtract(variable, Mul(rate_, g));
}

Operation Applier::Momentum(const Variable& variable, Output g) {
  const Variable& slot = Slot(variable, "Momentum");
  Output momentum = Constant(options_.momentum);
  if (Fused(variable)) {
    return graph_.AddNode("ResourceApplyMomentum", {variable.handle, slot.handle, rate_, g, momentum},
                          {{"use_nesterov", options_.nesterov}});
  }
  Output accumulated = Add(Mul(slot.value, momentum), g);
  Output direction = options_.nesterov ? Add(g, Mul(accumulated, momentum)) : accumulated;
  return Both(Assign(slot, accumulated), Subtract(variable, Mul(rate_, direction)));
}

Operation Applier::Adam(const Variable& variable, Output g) {
  const Variable& m = Slot(variable, "Adam");
  const Variable& v = Slot(variable, "Adam_1");
  Output epsilon = Constant(options_.epsilon);
  if (Fused(variable)) {
    return graph_.AddNode("ResourceApplyAdam",
                          {variable.handle, m.handle, v.handle, beta1_power_->value, beta2_power_->value, rate_,
                           Constant(options_.beta1), Constant(options_.beta2), epsilon, g});
  }
  Output new_m = Add(m.value, Mul(Sub(g, m.value), Constant(1 - options_.beta1)));
  Output new_v = Add(v.value, Mul(Sub(Square(g), v.value), Constant(1 - options_.beta2)));
  Operation moments = Both(Assign(m, new_m), Assign(v, new_v));
  return Both(moments, Subtract(variable, Div(Mul(AdamRate(), new_m), Add(Sqrt(new_v), epsilon))));
}

Output Applier::AdamRate() {
  const Output one = Constant(1);
  return Div(Mul(rate_, Sqrt(Sub(one, beta2_power_->value))), Sub(one, beta1_power_->value));
}

Operation Applier::Adagrad(const Variable& variable, Output g) {
  const Variable& slot = Slot(variable, "Adagrad", options_.initial_accumulator);
  if (Fused(variable)) return graph_.AddNode("ResourceApplyAdagrad", {variable.handle, slot.handle, rate_, g});
  Output accumulated = Add(slot.value, Square(g));
  return Both(Assign(slot, accumulated), Subtract(variable, Div(Mul(rate_, g), Sqrt(accumulated))));
}

Operation Applier::AdagradRows(const Variable& variable, Output g, Output rows) {
  const Variable& slot = Slot(variable, "Adagrad", options_.initial_accumulator);
  const Operation squares = ChangeRows("ResourceScatterAdd", slot, rows, Square(g));
  auto after = graph_.ControlDependencies({squares});
  const Output accumulated = graph_.Op("ResourceGather", {slot.handle, rows}, {{"dtype", slot.dtype}});
  return ChangeRows("ResourceScatterAdd", variable, rows, Div(Mul(g, Mul(rate_, Constant(-1))), Sqrt(accumulated)));
}

Operation Applier::MomentumRows(const Variable& variable, Output g, Output rows) {
  const Variable& slot = Slot(variable, "Momentum");
  const Output momentum = Constant(options_.momentum);
  const Output before = graph_.Op("ResourceGather", {slot.handle, rows}, {{"dtype", slot.dtype}});
  const Output accumulated = Add(Mul(before, momentum), g);
  const Output direction = options_.nesterov ? Add(g, Mul(accumulated, momentum)) : accumulated;
  return Both(ChangeRows("ResourceScatterUpdate", slot, rows, accumulated),
              ChangeRows("ResourceScatterSub", variable, rows, Mul(rate_, direction)));
}

// Both averages of every row fall in each step, and so every row moves, though gradients come for some alone.
Operation Applier::AdamRows(const Variable& variable, Output g, Output rows) {
  const auto next = [&](const Variable& slot, float beta, Output value) {
    const Operation fallen = Assign(slot, Mul(slot.value, Constant(beta)));
    const auto after = graph_.ControlDependencies({fallen});
    const Operation risen = ChangeRows("ResourceScatterAdd", slot, rows, Mul(value, Constant(1 - beta)));
    const auto then = graph_.ControlDependencies({risen});
    return graph_.Op("ReadVariableOp", {slot.handle}, {{"dtype", slot.dtype}});
  };
  const Output m = next(Slot(variable, "Adam"), options_.beta1, g),
               v = next(Slot(variable, "Adam_1"), options_.beta2, Square(g));
  return Subtract(variable, Div(Mul(AdamRate(), m), Add(Sqrt(v), Constant(options_.epsilon))));
}

// ---- RMSProp and AdaDelta ----

std::vector<const Variable*> Applier::SlotsOf(const Variable& variable) {
  if (options_.kind == OptimizerOptions::Kind::kAdadelta)
    return {&Slot(variable, "Adadelta"), &Slot(variable, "Adadelta_1")};
  std::vector<const Variable*> slots{&Slot(variable, "RMSProp", 1), &Slot(variable, "RMSProp_1")};
  if (options_.centered) slots.push_back(&Slot(variable, "RMSProp_2"));
  return slots;
}

Applier::Step Applier::Averaged(Output g, const std::vector<Output>& slots) {
  return options_.kind == OptimizerOptions::Kind::kAdadelta ? Adadelta(g, slots) : RmsProp(g, slots);
}

// slots: the squares' average, the momentum, and where it is centered the gradients' average.
Applier::Step Applier::RmsProp(Output g, const std::vector<Output>& slots) {
  std::vector<Output> next{Averaging(slots[0], Square(g))};
  Output spread = next[0];
  Output mean;
  if (options_.centered) {
    mean = Averaging(slots[2], g);
    spread = Sub(spread, Square(mean));
  }
  const Output increment = Div(Mul(rate_, g), Sqrt(Add(spread, Constant(options_.epsilon))));
  next.push_back(Add(Mul(slots[1], Constant(options_.rms_momentum)), increment));
  if (options_.centered) next.push_back(mean);
  return {next[1], next};
}

// slots: the averages of the gradients' squares and of the steps'.
Applier::Step Applier::Adadelta(Output g, const std::vector<Output>& slots) {
  const Output epsilon = Constant(options_.epsilon);
  const Output squares = Averaging(slots[0], Square(g));
  const Output step = Mul(g, Div(Sqrt(Add(slots[1], epsilon)), Sqrt(Add(squares, epsilon))));
  return {Mul(rate_, step), {squares, Averaging(slots[1], Square(step))}};
}

Operation Applier::OfAverages(const Variable& variable, Output g) {
  const std::vector<const Variable*> slots = SlotsOf(variable);
  if (Fused(variable) && options_.kind == OptimizerOptions::Kind::kRmsProp && !options_.centered) {
    return graph_.AddNode("ResourceApplyRMSProp",
                          {variable.handle, slots[0]->handle, slots[1]->handle, rate_, Constant(options_.decay()),
                           Constant(options_.rms_momentum), Constant(options_.epsilon), g});
  }
  std::vector<Output> values;
  for (const Variable* slot : slots) values.push_back(slot->value);
  const Step step = Averaged(g, values);
  std::vector<Operation> all{Subtract(variable, step.amount)};
  for (size_t i = 0; i < slots.size(); ++i) all.push_back(Assign(*slots[i], step.slots[i]));
  return Group(graph_, all, "apply");
}

Operation Applier::OfAveragesRows(const Variable& variable, Output g, Output rows) {
  const std::vector<const Variable*> slots = SlotsOf(variable);
  std::vector<Output> values;
  for (const Variable* slot : slots)
    values.push_back(graph_.Op("ResourceGather", {slot->handle, rows}, {{"dtype", slot->dtype}}));
  const Step step = Averaged(g, values);
  std::vector<Operation> all{ChangeRows("ResourceScatterSub", variable, rows, step.amount)};
  for (size_t i = 0; i < slots.size(); ++i)
    all.push_back(ChangeRows("ResourceScatterUpdate", *slots[i], rows, step.slots[i]));
  return Group(graph_, all, "apply");
}

}  // namespace tenon::train
