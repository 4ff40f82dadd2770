// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/optimizer.h"

#include <set>
#include <string>
#include <utility>

#include "sdk/app/train/optimizers/accumulator.h"
#include "sdk/app/train/optimizers/applier.h"
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

// By which gradients are taken: all who read the variable count, in loops and branches too, not the model's read alone.
std::vector<Output> SourcesOf(const std::vector<const Variable*>& variables) {
  std::vector<Output> sources;
  for (const Variable* variable : variables) sources.push_back(variable->handle);
  return sources;
}

// For who warns of them.
void NoteUnreached(Model& model, const std::vector<const Variable*>& variables, const auto& has_gradient) {
  std::vector<std::string> names;
  for (size_t i = 0; i < variables.size(); ++i)
    if (!has_gradient(i)) names.push_back(variables[i]->name);
  model.set_unreached(std::move(names));
}

// A gradient to apply: whole, or the rows that `rows` names.
struct Applied {
  const Variable* variable;
  Output value;
  Output rows;  // not valid: it is whole
};

// `share` times the sum of the gradients, added in their order, without the loss's scale.
Applied MeanOf(Graph& graph, LossScaler& scaler, const Variable& variable, const std::vector<host::Gradient>& parts,
               float share) {
  bool rows = variable.rows;
  std::vector<Output> values, indices;
  for (const host::Gradient& part : parts) rows = rows && part.kind == host::Gradient::Kind::kSlices;
  for (const host::Gradient& part : parts) {
    values.push_back(rows ? part.dense : Dense(graph, part));
    if (rows) indices.push_back(part.indices);
  }
  Output sum = rows ? JoinRows(graph, values) : values.size() == 1 ? values[0] : graph.Op("AddN", values);
  const Output which = rows ? JoinRows(graph, indices) : Output();
  return {&variable, scaler.Unscaled(sum, share), which};
}

// Rows that come twice are added first, so that a table of rows is clipped as a dense one.
void ClipAll(Graph& graph, const Clipping& clipping, std::vector<Applied>* gradients) {
  if (clipping.kind == Clipping::Kind::kNone) return;
  std::vector<Output> values;
  for (Applied& each : *gradients) {
    if (each.rows.valid()) {
      const Operation unique = graph.AddNode("Unique", {each.rows});
      each.value = graph.Op("UnsortedSegmentSum", {each.value, unique.output(1), graph.Op("Size", {unique.output(0)})});
      each.rows = unique.output(0);
    }
    values.push_back(each.value);
  }
  values = Clip(graph, values, clipping);
  for (size_t i = 0; i < values.size(); ++i) (*gradients)[i].value = values[i];
}

// What only one client's Minimize does.
void RefuseScalingAndAccumulation(Graph& graph, const OptimizerOptions& options, const std::string& whose) {
  if (options.loss_scaling.kind != LossScaling::Kind::kNone)
    graph.Fail(
        Status(Code::kUnimplemented,
               whose + " are not scaled; loss scaling is for one copy of the variables and one client (Minimize)"));
  if (options.accumulate != 1)
    graph.Fail(Status(Code::kUnimplemented,
                      whose + " are not accumulated; that is for one copy of the variables and one client (Minimize)"));
}

}  // namespace

Result<OptimizerOptions::Kind> OptimizerKindFromName(std::string_view name) {
  using Kind = OptimizerOptions::Kind;
  constexpr std::pair<std::string_view, Kind> kKinds[] = {{"sgd", Kind::kGradientDescent},
                                                          {"momentum", Kind::kMomentum},
                                                          {"adam", Kind::kAdam},
                                                          {"adagrad", Kind::kAdagrad},
                                                          {"rmsprop", Kind::kRmsProp},
                                                          {"adadelta", Kind::kAdadelta}};
  for (const auto& [known, kind] : kKinds) {
    if (known == name) return kind;
  }
  return Status(Code::kInvalidArgument, "there is no optimizer '" + std::string(name) +
                                            "'; there are sgd, momentum, adam, adagrad, rmsprop and adadelta");
}

Operation Minimize(Model& model, Output loss, Output learning_rate, const OptimizerOptions& options) {
  return Minimize(model, std::vector<Replica>{{loss, ""}}, learning_rate, options);
}

std::vector<Output> DenseGradients(Model& model, Output loss) {
  Graph& graph = model.graph();
  auto scope = graph.Scope("gradients");
  const std::vector<const Variable*> variables = model.trainable();
  for (const Variable* variable : variables) {
    if (variable->rows)
      graph.Fail(Status(
          Code::kUnimplemented,
          "'" + variable->name + "' is changed by rows; its gradient as a whole would be as large as the table"));
  }
  std::vector<Output> dense;
  for (const host::Gradient& gradient : graph.Gradients({loss}, SourcesOf(variables)))
    dense.push_back(gradient.kind == host::Gradient::Kind::kNone ? Output() : Dense(graph, gradient));
  return dense;
}

std::vector<VariableGradient> VariableGradients(Model& model, Output loss) {
  Graph& graph = model.graph();
  const auto scope = graph.Scope("gradients");
  const std::vector<const Variable*> variables = model.trainable();
  const std::vector<host::Gradient> found = graph.Gradients({loss}, SourcesOf(variables));
  std::vector<VariableGradient> gradients(variables.size());
  for (size_t i = 0; i < variables.size() && i < found.size(); ++i) {
    if (found[i].kind == host::Gradient::Kind::kNone) continue;
    const bool by_rows = variables[i]->rows && found[i].kind == host::Gradient::Kind::kSlices;
    gradients[i] = {by_rows ? found[i].dense : Dense(graph, found[i]), by_rows ? found[i].indices : Output()};
  }
  return gradients;
}

Operation ApplyGradients(Model& model, const std::vector<Output>& gradients, Output learning_rate,
                         const OptimizerOptions& options) {
  std::vector<VariableGradient> whole;
  for (const Output& gradient : gradients) whole.push_back({gradient, Output()});
  return ApplyGradients(model, whole, learning_rate, options);
}

Operation ApplyGradients(Model& model, const std::vector<VariableGradient>& gradients, Output learning_rate,
                         const OptimizerOptions& options) {
  Graph& graph = model.graph();
  auto scope = graph.Scope("train");
  RefuseScalingAndAccumulation(graph, options, "gradients that a caller brings");
  Applier applier(model, learning_rate, options);
  const std::vector<const Variable*> variables = model.trainable();
  std::vector<Applied> all;
  for (size_t i = 0; i < variables.size() && i < gradients.size(); ++i)
    if (gradients[i].value.valid()) all.push_back({variables[i], gradients[i].value, gradients[i].rows});
  NoteUnreached(model, variables, [&](size_t i) { return i < gradients.size() && gradients[i].value.valid(); });
  ClipAll(graph, options.clipping, &all);
  std::vector<Operation> applied;
  for (const Applied& each : all) {
    auto on = graph.Device(each.variable->device);
    applied.push_back(applier.Apply(*each.variable, each.value, each.rows));
  }
  if (applied.empty()) graph.Fail(Status(Code::kInvalidArgument, "there is no gradient to apply"));
  return Group(graph, applier.Finish(applied), "update");
}

Operation Minimize(Model& model, const std::vector<Replica>& replicas, Output learning_rate,
                   const OptimizerOptions& options) {
  Graph& graph = model.graph();
  const std::vector<const Variable*> variables = model.trainable();
  const std::vector<Output> values = SourcesOf(variables);
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
  if (scaler.is_dynamic() && options.accumulate != 1)
    graph.Fail(Status(Code::kUnimplemented,
                      "gradients of several steps are not accumulated under a dynamic loss scale, which leaves steps "
                      "out; take a fixed one"));
  Applier applier(model, learning_rate, options);
  Accumulator accumulator(model, options.accumulate);
  const float share = 1.0f / static_cast<float>(replicas.size());
  const auto device = [&](const Variable& variable) {
    return graph.Device(replicas.size() > 1 || variable.rows ? variable.device : "");
  };
  std::vector<Applied> gradients;
  for (size_t i = 0; i < variables.size(); ++i) {
    if (parts[i].empty()) continue;
    auto on = device(*variables[i]);
    gradients.push_back(MeanOf(graph, scaler, *variables[i], parts[i], share));
  }
  for (Applied& each : gradients) {
    auto on = device(*each.variable);
    each.value = accumulator.Mean(*each.variable, scaler.Gate(each.value));
  }
  ClipAll(graph, options.clipping, &gradients);
  std::vector<Operation> applied;
  for (const Applied& each : gradients) {
    auto on = device(*each.variable);
    applied.push_back(applier.Apply(*each.variable, each.value, each.rows));
  }
  if (applied.empty()) {
    graph.Fail(
        Status(Code::kInvalidArgument, "the loss '" + replicas[0].loss.name() + "' depends on no trainable variable"));
    return Operation();
  }
  NoteUnreached(model, variables, [&](size_t i) { return !parts[i].empty(); });
  return accumulator.Finish(scaler.Finish(applier.Finish(applied)));
}

namespace {

// Groups of two models in one session have different keys.
int64_t GroupKeyOf(const Output& loss) {
  uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : loss.name()) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return static_cast<int64_t>(hash & 0x7fffffff);
}

// Whether two of the replicas are of one task: the devices of a task come to the collectives in one order, which its
// queues keep.
bool ShareTasks(const std::vector<Replica>& replicas) {
  std::set<std::string> tasks;
  for (const Replica& replica : replicas) tasks.insert(TaskOfDevice(replica.device));
  return tasks.size() < replicas.size();
}

}  // namespace

Operation MinimizeMirrored(Model& model, const std::vector<Replica>& replicas, Output learning_rate,
                           const OptimizerOptions& options) {
  Graph& graph = model.graph();
  if (replicas.empty()) graph.Fail(Status(Code::kInvalidArgument, "mirrored training without a replica"));
  RefuseScalingAndAccumulation(graph, options, "gradients of mirrored replicas");
  if (!graph.status().ok()) return Operation();
  const bool in_order = ShareTasks(replicas);
  std::vector<Operation> updates;
  for (size_t k = 0; k < replicas.size(); ++k) {
    const auto on = graph.Device(replicas[k].device);
    const std::vector<const Variable*> variables = model.trainable(static_cast<int64_t>(k));
    std::vector<host::Gradient> gradients;
    {
      auto scope = graph.Scope("gradients");
      gradients = graph.Gradients({replicas[k].loss}, SourcesOf(variables));
    }
    if (k == 0)
      NoteUnreached(model, variables,
                    [&](size_t i) { return i < gradients.size() && gradients[i].kind != host::Gradient::Kind::kNone; });
    auto scope = graph.Scope("train");
    model.BeginReplica(static_cast<int64_t>(k), replicas[k].device);
    Applier applier(model, learning_rate, options);
    std::vector<Operation> before;
    std::vector<Output> means(variables.size());
    for (size_t i = 0; i < variables.size() && i < gradients.size(); ++i) {
      if (gradients[i].kind == host::Gradient::Kind::kNone) continue;
      const Output own = Dense(graph, gradients[i]);
      Operation mean;
      {
        // A device comes to the instances in the order that all have. Between tasks each goes its way as soon as it is
        // there.
        auto after = graph.ControlDependencies(before);
        mean = graph.AddNode("CollectiveReduce", {own},
                             {{"group_size", static_cast<int64_t>(replicas.size())},
                              {"group_key", GroupKeyOf(replicas[0].loss)},
                              {"instance_key", static_cast<int64_t>(i)},
                              {"merge_op", "Add"},
                              {"final_op", "Div"},
                              {"subdiv_offsets", std::vector<int64_t>{}}});
      }
      if (in_order) before = {mean};
      means[i] = mean.output(0);
    }
    means = Clip(graph, means, options.clipping);
    std::vector<Operation> applied;
    for (size_t i = 0; i < means.size(); ++i)
      if (means[i].valid()) applied.push_back(applier.Apply(*variables[i], means[i]));
    if (applied.empty()) {
      graph.Fail(Status(Code::kInvalidArgument, "the loss '" + replicas[k].loss.name() +
                                                    "' depends on no trainable variable of replica " +
                                                    std::to_string(k)));
      break;
    }
    for (const Operation& last : applier.Finish(applied)) updates.push_back(last);
  }
  model.EndReplicas();
  return Group(graph, updates, "update");
}

}  // namespace tenon::train
