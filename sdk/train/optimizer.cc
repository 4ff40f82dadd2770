// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/optimizer.h"

#include <utility>

#include "tenon/train/saver_nodes.h"

namespace tenon::train {
namespace {

// The whole gradient: rows that slices name are summed into zeros.
Output Dense(Graph& graph, const host::Gradient& gradient) {
  if (gradient.kind != host::Gradient::Kind::kSlices) return gradient.dense;
  Output rows = graph.Op("StridedSlice", {gradient.dense_shape, graph.Const({0}), graph.Const({1}), graph.Const({1})},
                         {{"shrink_axis_mask", 1}});
  return graph.Op("UnsortedSegmentSum", {gradient.dense, gradient.indices, rows});
}

// Builds the nodes that apply one gradient to one variable.
class Applier {
 public:
  Applier(Model& model, Output learning_rate, const OptimizerOptions& options)
      : model_(model), graph_(model.graph()), rate_(learning_rate), options_(options) {
    if (options.kind == OptimizerOptions::Kind::kAdam) {
      beta1_power_ = &model.State("beta1_power", Shape(), options.beta1);
      beta2_power_ = &model.State("beta2_power", Shape(), options.beta2);
    }
  }

  Operation Apply(const Variable& variable, Output gradient) {
    switch (options_.kind) {
      case OptimizerOptions::Kind::kGradientDescent:
        return GradientDescent(variable, gradient);
      case OptimizerOptions::Kind::kMomentum:
        return Momentum(variable, gradient);
      case OptimizerOptions::Kind::kAdam:
        return Adam(variable, gradient);
      case OptimizerOptions::Kind::kAdagrad:
        return Adagrad(variable, gradient);
    }
    return Operation();
  }

  // Changes the rows that `indices` name; the values of a row that comes twice are added first, as a dense gradient would have them.
  Operation ApplyRows(const Variable& variable, Output values, Output indices) {
    const Operation unique = graph_.AddNode("Unique", {indices});
    const Output rows = unique.output(0);
    const Output g = graph_.Op("UnsortedSegmentSum", {values, unique.output(1), graph_.Op("Size", {rows})});
    const Output down = Mul(rate_, Constant(-1));
    if (options_.kind == OptimizerOptions::Kind::kGradientDescent) return AddRows(variable, rows, Mul(g, down));
    if (options_.kind == OptimizerOptions::Kind::kAdagrad) {
      const Variable& slot = Slot(variable, "Adagrad", options_.initial_accumulator);
      const Operation squares = AddRows(slot, rows, graph_.Op("Square", {g}));
      auto after = graph_.ControlDependencies({squares});
      const Output accumulated = graph_.Op("ResourceGather", {slot.handle, rows}, {{"dtype", slot.dtype}});
      return AddRows(variable, rows, Div(Mul(g, down), Sqrt(accumulated)));
    }
    graph_.Fail(Status(Code::kUnimplemented, "'" + variable.name + "' is changed by rows, but momentum and adam move every row in every step; "
                                             "train it with sgd or adagrad"));
    return Operation();
  }

  // What changes once a step, after all variables.
  std::vector<Operation> Finish(const std::vector<Operation>& applied) {
    if (beta1_power_ == nullptr) return applied;
    auto after = graph_.ControlDependencies(applied);
    return {Assign(*beta1_power_, Mul(beta1_power_->value, Constant(options_.beta1))),
            Assign(*beta2_power_, Mul(beta2_power_->value, Constant(options_.beta2)))};
  }

 private:
  Output Constant(float value) { return graph_.Const(value); }
  Output Mul(Output a, Output b) { return graph_.Op("Mul", {a, b}); }
  Output Add(Output a, Output b) { return graph_.Op("AddV2", {a, b}); }
  Output Sub(Output a, Output b) { return graph_.Op("Sub", {a, b}); }
  Output Div(Output a, Output b) { return graph_.Op("RealDiv", {a, b}); }
  Output Sqrt(Output a) { return graph_.Op("Sqrt", {a}); }
  Operation Assign(const Variable& variable, Output value) {
    return graph_.AddNode("AssignVariableOp", {variable.handle, value}, {{"dtype", variable.dtype}});
  }
  Operation Subtract(const Variable& variable, Output amount) {
    return graph_.AddNode("AssignSubVariableOp", {variable.handle, amount}, {{"dtype", variable.dtype}});
  }
  Operation AddRows(const Variable& variable, Output rows, Output values) {
    return graph_.AddNode("ResourceScatterAdd", {variable.handle, rows, values}, {{"dtype", variable.dtype}});
  }
  const Variable& Slot(const Variable& variable, const char* name, float initial = 0) {
    return model_.State(variable.name + "/" + name, variable.shape, initial, variable.device);
  }

  Operation GradientDescent(const Variable& variable, Output g) {
    if (options_.fused) return graph_.AddNode("ResourceApplyGradientDescent", {variable.handle, rate_, g});
    return Subtract(variable, Mul(rate_, g));
  }

  Operation Momentum(const Variable& variable, Output g) {
    const Variable& slot = Slot(variable, "Momentum");
    Output momentum = Constant(options_.momentum);
    if (options_.fused) {
      return graph_.AddNode("ResourceApplyMomentum", {variable.handle, slot.handle, rate_, g, momentum},
                            {{"use_nesterov", options_.nesterov}});
    }
    Output accumulated = Add(Mul(slot.value, momentum), g);
    Output direction = options_.nesterov ? Add(g, Mul(accumulated, momentum)) : accumulated;
    return Both(Assign(slot, accumulated), Subtract(variable, Mul(rate_, direction)));
  }

  Operation Adam(const Variable& variable, Output g) {
    const Variable& m = Slot(variable, "Adam");
    const Variable& v = Slot(variable, "Adam_1");
    Output epsilon = Constant(options_.epsilon);
    if (options_.fused) {
      return graph_.AddNode("ResourceApplyAdam",
                            {variable.handle, m.handle, v.handle, beta1_power_->value, beta2_power_->value, rate_,
                             Constant(options_.beta1), Constant(options_.beta2), epsilon, g});
    }
    Output one = Constant(1);
    Output rate = Div(Mul(rate_, Sqrt(Sub(one, beta2_power_->value))), Sub(one, beta1_power_->value));
    Output new_m = Add(m.value, Mul(Sub(g, m.value), Constant(1 - options_.beta1)));
    Output new_v = Add(v.value, Mul(Sub(graph_.Op("Square", {g}), v.value), Constant(1 - options_.beta2)));
    Operation moments = Both(Assign(m, new_m), Assign(v, new_v));
    return Both(moments, Subtract(variable, Div(Mul(rate, new_m), Add(Sqrt(new_v), epsilon))));
  }

  Operation Adagrad(const Variable& variable, Output g) {
    const Variable& slot = Slot(variable, "Adagrad", options_.initial_accumulator);
    if (options_.fused) return graph_.AddNode("ResourceApplyAdagrad", {variable.handle, slot.handle, rate_, g});
    Output accumulated = Add(slot.value, graph_.Op("Square", {g}));
    return Both(Assign(slot, accumulated), Subtract(variable, Div(Mul(rate_, g), Sqrt(accumulated))));
  }

  Operation Both(const Operation& a, const Operation& b) { return Group(graph_, {a, b}, "apply"); }

  Model& model_;
  Graph& graph_;
  Output rate_;
  const OptimizerOptions& options_;
  const Variable* beta1_power_ = nullptr;
  const Variable* beta2_power_ = nullptr;
};

// A gradient to apply: whole, or the rows that `rows` names.
struct Applied {
  const Variable* variable;
  Output value;
  Output rows;  // not valid: it is whole
};

// `share` times the sum of the gradients, added in their order, without the loss's scale.
Applied MeanOf(Graph& graph, LossScaler& scaler, const Variable& variable, const std::vector<host::Gradient>& parts, float share) {
  bool rows = variable.rows;
  std::vector<Output> values, indices;
  for (const host::Gradient& part : parts) rows = rows && part.kind == host::Gradient::Kind::kSlices;
  for (const host::Gradient& part : parts) {
    values.push_back(rows ? part.dense : Dense(graph, part));
    if (rows) indices.push_back(part.indices);
  }
  const auto joined = [&graph](std::vector<Output> each) {
    if (each.size() == 1) return each[0];
    each.push_back(graph.Const(0));
    return graph.Op("ConcatV2", each);
  };
  Output sum = rows ? joined(values) : values.size() == 1 ? values[0] : graph.Op("AddN", values);
  const Output which = rows ? joined(indices) : Output();
  return {&variable, scaler.Unscaled(sum, share), which};
}

}  // namespace

Result<OptimizerOptions::Kind> OptimizerKindFromName(std::string_view name) {
  using Kind = OptimizerOptions::Kind;
  constexpr std::pair<std::string_view, Kind> kKinds[] = {{"sgd", Kind::kGradientDescent},
                                                          {"momentum", Kind::kMomentum},
                                                          {"adam", Kind::kAdam},
                                                          {"adagrad", Kind::kAdagrad}};
  for (const auto& [known, kind] : kKinds) {
    if (known == name) return kind;
  }
  return Status(Code::kInvalidArgument,
                "there is no optimizer '" + std::string(name) + "'; there are sgd, momentum, adam and adagrad");
}

Operation Minimize(Model& model, Output loss, Output learning_rate, const OptimizerOptions& options) {
  return Minimize(model, std::vector<Replica>{{loss, ""}}, learning_rate, options);
}

std::vector<Output> DenseGradients(Model& model, Output loss) {
  Graph& graph = model.graph();
  auto scope = graph.Scope("gradients");
  std::vector<Output> values, dense;
  for (const Variable* variable : model.trainable()) {
    values.push_back(variable->value);
    if (variable->rows)
      graph.Fail(Status(Code::kUnimplemented, "'" + variable->name + "' is changed by rows; its gradient as a whole would be as large as the table"));
  }
  for (const host::Gradient& gradient : graph.Gradients({loss}, values))
    dense.push_back(gradient.kind == host::Gradient::Kind::kNone ? Output() : Dense(graph, gradient));
  return dense;
}

Operation ApplyGradients(Model& model, const std::vector<Output>& gradients, Output learning_rate, const OptimizerOptions& options) {
  Graph& graph = model.graph();
  auto scope = graph.Scope("train");
  if (options.loss_scaling.kind != LossScaling::Kind::kNone)
    graph.Fail(Status(Code::kUnimplemented, "gradients that several clients bring are not scaled; loss scaling is for one client's Minimize"));
  Applier applier(model, learning_rate, options);
  const std::vector<const Variable*> variables = model.trainable();
  std::vector<Operation> applied;
  for (size_t i = 0; i < variables.size() && i < gradients.size(); ++i) {
    if (!gradients[i].valid()) continue;
    auto on = graph.Device(variables[i]->device);
    applied.push_back(applier.Apply(*variables[i], gradients[i]));
  }
  if (applied.empty()) graph.Fail(Status(Code::kInvalidArgument, "there is no gradient to apply"));
  return Group(graph, applier.Finish(applied), "update");
}

Operation Minimize(Model& model, const std::vector<Replica>& replicas, Output learning_rate, const OptimizerOptions& options) {
  Graph& graph = model.graph();
  const std::vector<const Variable*> variables = model.trainable();
  std::vector<Output> values;
  for (const Variable* variable : variables) values.push_back(variable->rows ? variable->handle : variable->value);
  std::vector<std::vector<host::Gradient>> parts(variables.size());  // of each variable: the replicas' gradients
  LossScaler scaler(model, options.loss_scaling);
  for (const Replica& replica : replicas) {
    auto scope = graph.Scope("gradients");
    auto on = graph.Device(replica.device);
    const std::vector<host::Gradient> gradients = graph.Gradients({scaler.Scaled(replica.loss)}, values);
    for (size_t i = 0; i < variables.size() && i < gradients.size(); ++i) {
      host::Gradient gradient = gradients[i];
      if (gradient.kind == host::Gradient::Kind::kNone) continue;
      if (!variables[i]->rows) gradient = {host::Gradient::Kind::kDense, Dense(graph, gradient), Output(), Output()};
      parts[i].push_back(gradient);
    }
  }
  auto scope = graph.Scope("train");
  Applier applier(model, learning_rate, options);
  const float share = 1.0f / static_cast<float>(replicas.size());
  const auto device = [&](const Variable& variable) { return graph.Device(replicas.size() > 1 || variable.rows ? variable.device : ""); };
  std::vector<Applied> gradients;
  for (size_t i = 0; i < variables.size(); ++i) {
    if (parts[i].empty()) continue;
    auto on = device(*variables[i]);
    gradients.push_back(MeanOf(graph, scaler, *variables[i], parts[i], share));
  }
  std::vector<Operation> applied;
  for (const Applied& each : gradients) {
    auto on = device(*each.variable);
    const Output value = scaler.Gate(each.value);
    applied.push_back(each.rows.valid() ? applier.ApplyRows(*each.variable, value, each.rows) : applier.Apply(*each.variable, value));
  }
  if (applied.empty()) {
    graph.Fail(Status(Code::kInvalidArgument, "the loss '" + replicas[0].loss.name() + "' depends on no trainable variable"));
    return Operation();
  }
  return scaler.Finish(applier.Finish(applied));
}

namespace {

// Groups of two models in one session have different keys.
int64_t GroupKeyOf(const Output& loss) {
  uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : loss.name()) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return static_cast<int64_t>(hash & 0x7fffffff);
}

// Whether collectives can serve these replicas.
Status CheckMirrored(const std::vector<Replica>& replicas) {
  for (const Replica& replica : replicas) {
    if (TaskOfDevice(replica.device) == TaskOfDevice(replicas[0].device)) continue;
    return Status(Code::kUnimplemented, "mirrored replicas on '" + replicas[0].device + "' and '" + replica.device +
                                            "': collectives between processes are not there yet; give the replicas shared variables instead");
  }
  return replicas.empty() ? Status(Code::kInvalidArgument, "mirrored training without a replica") : Status();
}

}  // namespace

Operation MinimizeMirrored(Model& model, const std::vector<Replica>& replicas, Output learning_rate, const OptimizerOptions& options) {
  Graph& graph = model.graph();
  if (Status status = CheckMirrored(replicas); !status.ok()) graph.Fail(std::move(status));
  if (options.loss_scaling.kind != LossScaling::Kind::kNone)
    graph.Fail(Status(Code::kUnimplemented, "gradients of mirrored replicas are not scaled; loss scaling is for one copy of the variables (Minimize)"));
  if (!graph.status().ok()) return Operation();
  std::vector<Operation> updates;
  for (size_t k = 0; k < replicas.size(); ++k) {
    const auto on = graph.Device(replicas[k].device);
    const std::vector<const Variable*> variables = model.trainable(static_cast<int64_t>(k));
    std::vector<Output> values;
    for (const Variable* variable : variables) values.push_back(variable->value);
    std::vector<host::Gradient> gradients;
    {
      auto scope = graph.Scope("gradients");
      gradients = graph.Gradients({replicas[k].loss}, values);
    }
    auto scope = graph.Scope("train");
    model.BeginReplica(static_cast<int64_t>(k), replicas[k].device);
    Applier applier(model, learning_rate, options);
    std::vector<Operation> applied, before;
    for (size_t i = 0; i < variables.size() && i < gradients.size(); ++i) {
      if (gradients[i].kind == host::Gradient::Kind::kNone) continue;
      const Output own = Dense(graph, gradients[i]);
      Operation mean;
      {
        // A device comes to the instances in the order that all have.
        auto after = graph.ControlDependencies(before);
        mean = graph.AddNode("CollectiveReduce", {own},
                             {{"group_size", static_cast<int64_t>(replicas.size())}, {"group_key", GroupKeyOf(replicas[0].loss)},
                              {"instance_key", static_cast<int64_t>(i)}, {"merge_op", "Add"}, {"final_op", "Div"},
                              {"subdiv_offsets", std::vector<int64_t>{}}});
      }
      before = {mean};
      applied.push_back(applier.Apply(*variables[i], mean.output(0)));
    }
    if (applied.empty()) {
      graph.Fail(Status(Code::kInvalidArgument, "the loss '" + replicas[k].loss.name() + "' depends on no trainable variable of replica " + std::to_string(k)));
      break;
    }
    for (const Operation& last : applier.Finish(applied)) updates.push_back(last);
  }
  model.EndReplicas();
  return Group(graph, updates, "update");
}

}  // namespace tenon::train
