// SPDX-License-Identifier: Apache-2.0
// Variables and layers, and what changes the variables.
#include "train_model.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "dtype.h"
#include "tenon/train/optimizer.h"

namespace tenon::python {
namespace {

using train::Initializer, train::OptimizerOptions, train::Variable;

nb::object MakeVariable(ModelOfVariables& self, const std::string& kind, const std::string& name, nb::object shape,
                        const Initializer& initial, const std::string& device) {
  const Shape c_shape = ToShape(shape);
  if (!c_shape.fully_known())
    FailInvalid("variable '" + name + "' has the shape " + c_shape.ToString() + "; a variable's shape is fully known");
  const Variable* variable = self.Do([&](train::Model& model) {
    if (kind == "rows") return &model.Rows(name, c_shape, initial, device);
    if (kind == "state") return &model.State(name, c_shape, initial.value, device);
    if (kind == "counter") return &model.Counter(name);
    return &model.Weight(name, c_shape, initial, device);
  });
  return FromVariable(self, *variable);
}

nb::list Variables(const ModelOfVariables& self) {
  nb::list list;
  for (const Variable& variable : self.model->variables()) list.append(FromVariable(self, variable));
  return list;
}

OptimizerOptions ToOptimizer(nb::dict given) {
  OptimizerOptions options;
  options.kind = Take(train::OptimizerKindFromName(nb::cast<std::string>(given["kind"])));
  const auto number = [&](const char* key, float& to) {
    if (given.contains(key)) to = nb::cast<float>(given[key]);
  };
  number("momentum", options.momentum);
  number("beta1", options.beta1);
  number("beta2", options.beta2);
  number("epsilon", options.epsilon);
  number("initial_accumulator", options.initial_accumulator);
  if (given.contains("nesterov")) options.nesterov = nb::cast<bool>(given["nesterov"]);
  if (given.contains("fused")) options.fused = nb::cast<bool>(given["fused"]);
  number("rms_momentum", options.rms_momentum);
  if (given.contains("rho")) options.rho = nb::cast<float>(given["rho"]);
  if (given.contains("centered")) options.centered = nb::cast<bool>(given["centered"]);
  if (given.contains("accumulate")) options.accumulate = nb::cast<int64_t>(given["accumulate"]);
  using Clip = train::Clipping::Kind;
  for (const auto& [key, kind] :
       {std::pair{"clip_value", Clip::kValue}, {"clip_norm", Clip::kNorm}, {"clip_global_norm", Clip::kGlobalNorm}}) {
    if (!given.contains(key)) continue;
    if (options.clipping.kind != Clip::kNone)
      FailInvalid("gradients are clipped in one way: clip_value, clip_norm or clip_global_norm");
    options.clipping = {kind, nb::cast<float>(given[key])};
  }
  const nb::object scale = given.contains("loss_scale") ? nb::object(given["loss_scale"]) : nb::none();
  const bool dynamic = nb::isinstance<nb::str>(scale);
  for (const char* key : {"loss_scale_first", "loss_scale_growth"})
    if (given.contains(key) && !dynamic) FailInvalid(std::string(key) + " is of loss_scale=\"dynamic\" alone");
  if (scale.is_none()) return options;
  if (dynamic && nb::cast<std::string>(scale) != "dynamic") FailInvalid("loss_scale is a power of two, or \"dynamic\"");
  options.loss_scaling.kind = dynamic ? train::LossScaling::Kind::kDynamic : train::LossScaling::Kind::kFixed;
  number(dynamic ? "loss_scale_first" : "loss_scale", options.loss_scaling.scale);
  if (given.contains("loss_scale_growth")) options.loss_scaling.growth = nb::cast<int64_t>(given["loss_scale_growth"]);
  return options;
}

// replicas: pairs of a loss and a device.
OperationBox MinimizeReplicas(ModelOfVariables& self, nb::list replicas, const OutputBox& rate, nb::dict optimizer,
                              bool mirrored) {
  const OptimizerOptions options = ToOptimizer(optimizer);
  std::vector<train::Replica> made;
  for (const nb::handle replica : replicas)
    made.push_back({nb::cast<OutputBox&>(replica[0]).output, nb::cast<std::string>(replica[1])});
  return {self.graph, self.Do([&](train::Model& model) {
            return mirrored ? train::MinimizeMirrored(model, made, rate.output, options)
                            : train::Minimize(model, made, rate.output, options);
          })};
}

nb::list DenseGradients(ModelOfVariables& self, const OutputBox& loss) {
  nb::list list;
  for (const host::Output& gradient :
       self.Do([&](train::Model& model) { return train::DenseGradients(model, loss.output); }))
    list.append(gradient.valid() ? nb::cast(self.Out(gradient)) : nb::none());
  return list;
}

OperationBox ApplyGradients(ModelOfVariables& self, nb::list gradients, const OutputBox& rate, nb::dict optimizer) {
  const OptimizerOptions options = ToOptimizer(optimizer);
  const std::vector<host::Output> given = ToGradients(gradients);
  return {self.graph,
          self.Do([&](train::Model& model) { return train::ApplyGradients(model, given, rate.output, options); })};
}

OperationBox Minimize(ModelOfVariables& self, const OutputBox& loss, const OutputBox& rate, nb::dict optimizer) {
  const OptimizerOptions options = ToOptimizer(optimizer);
  return {self.graph,
          self.Do([&](train::Model& model) { return train::Minimize(model, loss.output, rate.output, options); })};
}

}  // namespace

std::vector<host::Output> ToGradients(nb::list gradients) {
  std::vector<host::Output> made;
  for (const nb::handle gradient : gradients)
    made.push_back(gradient.is_none() ? host::Output() : ToOutputs(nb::make_tuple(gradient))[0]);
  return made;
}

nb::object FromVariable(const ModelOfVariables& self, const train::Variable& variable) {
  return nb::make_tuple(variable.name, FromDType(variable.dtype), FromShape(variable.shape), variable.trainable,
                        self.Out(variable.handle), self.Out(variable.value),
                        OperationBox{self.graph, variable.initial});
}

void BindTrainModels(nb::module_& module) {
  nb::class_<Initializer>(module, "Initializer", "How a variable begins.")
      .def_static("constant", &Initializer::Constant, nb::arg("value"))
      .def_static("truncated_normal", &Initializer::TruncatedNormal, nb::arg("deviation"),
                  "A normal distribution, cut at two deviations.")
      .def_static("he", &Initializer::He, nb::arg("fan_in"),
                  "For layers followed by relu: deviation sqrt(2 / inputs of a unit).");
  nb::class_<ModelOfVariables>(module, "TrainModelBase", nb::type_slots(traversed_slots<ModelOfVariables>))
      .def("__init__",
           [](ModelOfVariables* self, nb::object graph, uint64_t seed) {
             new (self) ModelOfVariables{graph, std::make_unique<train::Model>(BoxOf(graph).graph, seed)};
           })
      .def_ro("graph", &ModelOfVariables::graph)
      .def("_variable", &MakeVariable, nb::arg("kind"), nb::arg("name"), nb::arg("shape").none(),
           nb::arg("initializer"), nb::arg("device"))
      .def("_variables", &Variables)
      .def("_set_variable_devices",
           [](ModelOfVariables& self, std::vector<std::string> devices) {
             self.model->set_variable_devices(std::move(devices));
           })
      .def_prop_ro("parameter_count", [](const ModelOfVariables& self) { return self.model->parameter_count(); })
      .def(
          "initialize_all",
          [](ModelOfVariables& self) {
            return OperationBox{self.graph, self.Do([](train::Model& m) { return m.InitializeAll(); })};
          },
          "A node that gives all variables made so far their first values.")
      .def("_dense",
           [](ModelOfVariables& self, const std::string& name, const OutputBox& x, int64_t inputs, int64_t units,
              const Initializer& initial) {
             return self.Out(self.Do([&](train::Model& m) { return m.Dense(name, x.output, inputs, units, initial); }));
           })
      .def("_conv2d",
           [](ModelOfVariables& self, const std::string& name, const OutputBox& x, int64_t size, int64_t inputs,
              int64_t filters, const Initializer& initial) {
             return self.Out(
                 self.Do([&](train::Model& m) { return m.Conv2D(name, x.output, size, inputs, filters, initial); }));
           })
      .def(
          "max_pool",
          [](ModelOfVariables& self, const OutputBox& x, int64_t size) {
            return self.Out(self.Do([&](train::Model& m) { return m.MaxPool(x.output, size); }));
          },
          nb::arg("x"), nb::arg("size"), "Of [batch, height, width, channels]: the largest of each size x size square.")
      .def("_minimize", &Minimize)
      .def("_minimize_replicas", &MinimizeReplicas)
      .def("_dense_gradients", &DenseGradients)
      .def("_apply_gradients", &ApplyGradients)
      .def(
          "begin_replica",
          [](ModelOfVariables& self, int64_t replica, const std::string& device) {
            self.Do([&](train::Model& m) {
              m.BeginReplica(replica, device);
              return true;
            });
          },
          nb::arg("replica"), nb::arg("device"),
          "What is asked for from now on is this replica's and stands on its device: of replica 0 the model's own "
          "variables, of others mirrors "
          "of them, which checkpoints do not hold.")
      .def(
          "end_replicas",
          [](ModelOfVariables& self) {
            self.Do([](train::Model& m) {
              m.EndReplicas();
              return true;
            });
          },
          "The model's own again.")
      .def(
          "copy_to_mirrors",
          [](ModelOfVariables& self) -> nb::object {
            const host::Operation copied = self.Do([](train::Model& m) { return m.CopyToMirrors(); });
            return copied.valid() ? nb::cast(OperationBox{self.graph, copied}) : nb::none();
          },
          "A node that gives all mirrors made so far the values of the model's own variables; None without mirrors.");
  module.def("_sparse_softmax_loss", [](const OutputBox& logits, const OutputBox& labels) {
    return OutputBox{logits.graph, Changed(BoxOf(logits.graph), [&](host::Graph& graph) {
                       return train::SparseSoftmaxLoss(graph, logits.output, labels.output);
                     })};
  });
  module.def("_accuracy", [](const OutputBox& logits, const OutputBox& labels) {
    return OutputBox{logits.graph, Changed(BoxOf(logits.graph), [&](host::Graph& graph) {
                       return train::Accuracy(graph, logits.output, labels.output);
                     })};
  });
}

}  // namespace tenon::python
