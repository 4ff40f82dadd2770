// SPDX-License-Identifier: Apache-2.0
// Training (sdk/train): variables and layers, optimizers, savers, event files, the loop.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <optional>

#include "graph.h"
#include "interrupt.h"
#include "session.h"
#include "tenon/train/event_file.h"
#include "tenon/train/optimizer.h"
#include "tenon/train/saver.h"
#include "tenon/train/trainer.h"

namespace tenon::python {
namespace {

using train::Initializer, train::OptimizerOptions, train::Variable;

// The model refers to the graph, which the object keeps.
struct ModelOfVariables {
  nb::object graph;
  std::unique_ptr<train::Model> model;

  void VisitKept(const auto& visit) const { visit(graph); }
  template <typename Change>
  auto Do(const Change& change) {
    return Changed(BoxOf(graph), [&](host::Graph&) { return change(*model); });
  }
  OutputBox Out(const host::Output& output) const { return {graph, output}; }
};

host::Output ToOutput(const OutputBox& box) { return box.output; }

// A variable as a tuple of its parts; tenon/train.py gives them names.
nb::object FromVariable(const ModelOfVariables& self, const Variable& variable) {
  return nb::make_tuple(variable.name, FromDType(variable.dtype), FromShape(variable.shape), variable.trainable, self.Out(variable.handle),
                        self.Out(variable.value), OperationBox{self.graph, variable.initial});
}

nb::object MakeVariable(ModelOfVariables& self, const std::string& kind, const std::string& name, nb::object shape, const Initializer& initial,
                        const std::string& device) {
  const Shape c_shape = ToShape(shape);
  if (!c_shape.fully_known()) FailInvalid("variable '" + name + "' has the shape " + c_shape.ToString() + "; a variable's shape is fully known");
  const Variable* variable = self.Do([&](train::Model& model) {
    if (kind == "rows") return &model.Rows(name, c_shape, initial, device);
    if (kind == "state") return &model.State(name, c_shape, initial.value, device);
    if (kind == "counter") return &model.Counter(name);
    return &model.Weight(name, c_shape, initial);
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
  if (!given.contains("loss_scale")) return options;
  const nb::object scale = given["loss_scale"];
  const bool dynamic = nb::isinstance<nb::str>(scale);
  if (dynamic && nb::cast<std::string>(scale) != "dynamic") FailInvalid("loss_scale is a power of two, or \"dynamic\"");
  options.loss_scaling.kind = dynamic ? train::LossScaling::Kind::kDynamic : train::LossScaling::Kind::kFixed;
  if (!dynamic) options.loss_scaling.scale = nb::cast<float>(scale);
  return options;
}

OperationBox Minimize(ModelOfVariables& self, const OutputBox& loss, const OutputBox& rate, nb::dict optimizer) {
  const OptimizerOptions options = ToOptimizer(optimizer);
  return {self.graph, self.Do([&](train::Model& model) { return train::Minimize(model, ToOutput(loss), ToOutput(rate), options); })};
}

// ---- Checkpoints ----

train::SaverOptions ToSaverOptions(nb::dict given) {
  train::SaverOptions options;
  options.keep = nb::cast<int>(given["keep"]);
  options.keep_every_hours = nb::cast<double>(given["keep_every_hours"]);
  options.keep_best = nb::cast<int>(given["keep_best"]);
  options.higher_is_better = nb::cast<bool>(given["higher_is_better"]);
  options.step_variable = nb::cast<std::string>(given["step_variable"]);
  for (const auto& [variable, name] : nb::cast<nb::dict>(given["variables"]))
    options.variables.push_back({nb::cast<std::string>(variable), nb::cast<std::string>(name)});
  return options;
}

struct SaverBox {
  nb::object model;  // a ModelOfVariables
  std::unique_ptr<train::Saver> saver;
  void VisitKept(const auto& visit) const { visit(model); }
};

SaverBox MakeSaver(nb::object model, const std::string& folder, nb::dict options) {
  auto& variables = nb::cast<ModelOfVariables&>(model);
  const train::SaverOptions c_options = ToSaverOptions(options);
  return {model, variables.Do([&](train::Model& of) { return std::make_unique<train::Saver>(of, folder, c_options); })};
}

// ---- The loop ----

// What a callback raised, kept while C++ returns.
struct Raised {
  std::optional<nb::python_error> error;
  void Rethrow() {
    if (!error) return;
    const nb::python_error thrown(*error);
    error.reset();  // its frames keep whatever they use, this trainer too
    throw thrown;
  }
};

// A training loop with callbacks in Python, which run in the thread that called run(). What a callback raises, KeyboardInterrupt too, ends the loop:
// from on_step after a last checkpoint.
struct TrainerBox {
  nb::object model, feed, on_step, on_message;
  std::shared_ptr<host::Session> session;  // outlives the trainer's callable
  std::unique_ptr<train::Trainer> trainer;
  std::vector<DType> feed_types;
  std::vector<std::string> metric_names;
  std::atomic<bool> stop{false};
  Raised raised;
  FedValues fed;

  void VisitKept(const auto& visit) const {
    for (const nb::object* kept : {&model, &feed, &on_step, &on_message}) visit(*kept);
  }
  Result<std::vector<View>> Feed(int64_t step) {
    const WithLock locked;
    try {
      fed = FedValues();  // the step before has ended
      const nb::object values = feed(step);
      if (nb::len(values) != feed_types.size())
        return Status(Code::kInvalidArgument, "feed(" + std::to_string(step) + ") gave " + std::to_string(nb::len(values)) + " values for " +
                                                  std::to_string(feed_types.size()) + " feeds");
      size_t i = 0;
      for (const nb::handle value : nb::iter(values)) {
        fed.Add(ToView(value, feed_types[i], "feed " + std::to_string(i) + " of step " + std::to_string(step)));
        ++i;
      }
      return fed.views;
    } catch (nb::python_error& error) {
      raised.error.emplace(std::move(error));
      return Status(Code::kCancelled, "feed raised an exception");
    } catch (const StatusError& error) {
      return error.status();
    }
  }
  void OnStep(const train::StepReport& report) {
    const WithLock locked;
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (!on_step.is_none()) on_step(ReportOf(report));
    } catch (nb::python_error& error) {
      raised.error.emplace(std::move(error));
      stop = true;
    }
  }
  void OnMessage(const std::string& message) {
    const WithLock locked;
    try {
      if (!on_message.is_none()) on_message(message);
    } catch (nb::python_error& error) {
      raised.error.emplace(std::move(error));
      stop = true;
    }
  }
  nb::dict ReportOf(const train::StepReport& report) const {
    nb::dict values;
    values["step"] = report.step;
    values["steps"] = report.steps;
    values["loss"] = report.loss;
    for (size_t i = 0; i < metric_names.size(); ++i) values[metric_names[i].c_str()] = report.metrics[i];
    values["examples_per_second"] = report.examples_per_second;
    values["seconds_left"] = report.seconds_left;
    return values;
  }
};

train::TrainingOptions ToTrainingOptions(nb::dict given, const std::atomic<bool>* stop) {
  train::TrainingOptions options;
  options.steps = nb::cast<int64_t>(given["steps"]);
  options.checkpoint_folder = nb::cast<std::string>(given["checkpoint_folder"]);
  options.checkpoint_steps = nb::cast<int64_t>(given["checkpoint_steps"]);
  options.checkpoint_seconds = nb::cast<double>(given["checkpoint_seconds"]);
  options.keep = nb::cast<int>(given["keep"]);
  options.keep_every_hours = nb::cast<double>(given["keep_every_hours"]);
  options.keep_best = nb::cast<int>(given["keep_best"]);
  options.best_metric = nb::cast<std::string>(given["best_metric"]);
  options.higher_is_better = nb::cast<bool>(given["higher_is_better"]);
  options.resume = nb::cast<bool>(given["resume"]);
  options.warm_start = nb::cast<std::string>(given["warm_start"]);
  options.event_folder = nb::cast<std::string>(given["event_folder"]);
  options.event_steps = nb::cast<int64_t>(given["event_steps"]);
  options.stop = stop;
  return options;
}

void MakeTrainer(TrainerBox* self, nb::object model, const OutputBox& loss, nb::dict metrics, const OperationBox& update, nb::list feeds, nb::object feed,
                 int64_t examples, nb::dict options, nb::object on_step, nb::object on_message) {
  new (self) TrainerBox{model, feed, on_step, on_message, nullptr, nullptr, {}, {}, {}, {}, {}};
  auto& variables = nb::cast<ModelOfVariables&>(model);
  train::TrainingStep step;
  step.loss = ToOutput(loss);
  for (const auto& [name, output] : metrics) {
    self->metric_names.push_back(nb::cast<std::string>(name));
    step.metrics.emplace_back(self->metric_names.back(), nb::cast<OutputBox&>(output).output);
  }
  step.update = update.operation;
  step.feeds = ToOutputs(feeds);
  for (const host::Output& output : step.feeds) self->feed_types.push_back(output.dtype());
  step.feed = [self](int64_t number) { return self->Feed(number); };
  step.examples = examples;
  const train::TrainingOptions c_options = ToTrainingOptions(options, &self->stop);
  self->trainer = variables.Do([&](train::Model& of) { return std::make_unique<train::Trainer>(of, std::move(step), c_options); });
  self->trainer->on_step = [self](const train::StepReport& report) { self->OnStep(report); };
  self->trainer->on_message = [self](const std::string& message) { self->OnMessage(message); };
}

void Begin(TrainerBox& self, const SessionBox& session) {
  const Locked locked(BoxOf(nb::cast<ModelOfVariables&>(self.model).graph));
  self.session = Live(session);
  Status status;
  {
    const WithoutLock unlocked;
    status = self.trainer->Begin(*self.session);
  }
  self.raised.Rethrow();
  Check(std::move(status));
}

nb::dict RunTrainer(TrainerBox& self) {
  self.stop = false;
  self.raised.error.reset();
  std::optional<Result<train::TrainingReport>> report;
  {
    const WithoutLock unlocked;
    report = self.trainer->Run();
  }
  self.fed = FedValues();
  self.raised.Rethrow();
  const train::TrainingReport done = Take(std::move(*report));
  nb::dict values;
  values["first_step"] = done.first_step;
  values["last_step"] = done.last_step;
  values["stopped"] = done.stopped;
  values["seconds"] = done.seconds;
  values["examples_per_second"] = done.examples_per_second;
  values["checkpoint"] = done.checkpoint;
  return values;
}

void BindModel(nb::module_& module) {
  nb::class_<Initializer>(module, "Initializer", "How a variable begins.")
      .def_static("constant", &Initializer::Constant, nb::arg("value"))
      .def_static("truncated_normal", &Initializer::TruncatedNormal, nb::arg("deviation"), "A normal distribution, cut at two deviations.")
      .def_static("he", &Initializer::He, nb::arg("fan_in"), "For layers followed by relu: deviation sqrt(2 / inputs of a unit).");
  nb::class_<ModelOfVariables>(module, "TrainModelBase", nb::type_slots(traversed_slots<ModelOfVariables>))
      .def("__init__", [](ModelOfVariables* self, nb::object graph, uint64_t seed) {
        new (self) ModelOfVariables{graph, std::make_unique<train::Model>(BoxOf(graph).graph, seed)};
      })
      .def_ro("graph", &ModelOfVariables::graph)
      .def("_variable", &MakeVariable, nb::arg("kind"), nb::arg("name"), nb::arg("shape").none(), nb::arg("initializer"), nb::arg("device"))
      .def("_variables", &Variables)
      .def("_set_variable_devices", [](ModelOfVariables& self, std::vector<std::string> devices) { self.model->set_variable_devices(std::move(devices)); })
      .def_prop_ro("parameter_count", [](const ModelOfVariables& self) { return self.model->parameter_count(); })
      .def("initialize_all", [](ModelOfVariables& self) { return OperationBox{self.graph, self.Do([](train::Model& m) { return m.InitializeAll(); })}; },
           "A node that gives all variables made so far their first values.")
      .def("_dense", [](ModelOfVariables& self, const std::string& name, const OutputBox& x, int64_t inputs, int64_t units, const Initializer& initial) {
        return self.Out(self.Do([&](train::Model& m) { return m.Dense(name, ToOutput(x), inputs, units, initial); }));
      })
      .def("_conv2d", [](ModelOfVariables& self, const std::string& name, const OutputBox& x, int64_t size, int64_t inputs, int64_t filters, const Initializer& initial) {
        return self.Out(self.Do([&](train::Model& m) { return m.Conv2D(name, ToOutput(x), size, inputs, filters, initial); }));
      })
      .def("max_pool", [](ModelOfVariables& self, const OutputBox& x, int64_t size) {
        return self.Out(self.Do([&](train::Model& m) { return m.MaxPool(ToOutput(x), size); }));
      }, nb::arg("x"), nb::arg("size"), "Of [batch, height, width, channels]: the largest of each size x size square.")
      .def("_minimize", &Minimize);
  module.def("_sparse_softmax_loss", [](const OutputBox& logits, const OutputBox& labels) {
    return OutputBox{logits.graph, Changed(BoxOf(logits.graph), [&](host::Graph& graph) { return train::SparseSoftmaxLoss(graph, logits.output, labels.output); })};
  });
  module.def("_accuracy", [](const OutputBox& logits, const OutputBox& labels) {
    return OutputBox{logits.graph, Changed(BoxOf(logits.graph), [&](host::Graph& graph) { return train::Accuracy(graph, logits.output, labels.output); })};
  });
}

void BindSaver(nb::module_& module) {
  nb::class_<SaverBox>(module, "SaverBase", nb::type_slots(traversed_slots<SaverBox>))
      .def("__init__", [](SaverBox* self, nb::object model, const std::string& folder, nb::dict options) { new (self) SaverBox(MakeSaver(model, folder, options)); })
      .def_prop_ro("folder", [](const SaverBox& self) { return self.saver->folder(); })
      .def("_save", [](SaverBox& self, const SessionBox& session, int64_t step, std::optional<double> metric) {
        const WithoutLock unlocked;
        return Take(self.saver->Save(*Live(session), step, metric));
      }, nb::arg("session"), nb::arg("step"), nb::arg("metric").none())
      .def("_restore_newest", [](SaverBox& self, const SessionBox& session) {
        train::Restored restored;
        {
          const WithoutLock unlocked;
          restored = Take(self.saver->RestoreNewest(*Live(session)));
        }
        return nb::make_tuple(restored.prefix, restored.step, restored.warnings);
      })
      .def("_restore_from", [](SaverBox& self, const SessionBox& session, const std::string& prefix) {
        const WithoutLock unlocked;
        Check(self.saver->RestoreFrom(*Live(session), prefix));
      })
      .def("clear", [](SaverBox& self) {
        const WithoutLock unlocked;
        Check(self.saver->Clear());
      }, "Removes the folder's checkpoints.");
}

void BindEvents(nb::module_& module) {
  using train::EventWriter;
  nb::class_<EventWriter>(module, "EventWriterBase")
      .def("__init__", [](EventWriter* self, const std::string& folder) { new (self) EventWriter(Take(EventWriter::Create(folder))); })
      .def_prop_ro("path", &EventWriter::path)
      .def("_add_scalars", [](EventWriter& self, int64_t step, const std::vector<std::pair<std::string, float>>& values) { Check(self.AddScalars(step, values)); })
      .def("_add_graph", [](EventWriter& self, nb::bytes graph_def) { Check(self.AddGraph({graph_def.c_str(), graph_def.size()})); })
      .def("add_start", [](EventWriter& self, int64_t step) { Check(self.AddStart(step)); }, nb::arg("step"), "A run begins again at this step.")
      .def("flush", [](EventWriter& self) { Check(self.Flush()); }, "Gives what was added to the file system.");
}

}  // namespace

void BindTraining(nb::module_& module) {
  BindModel(module);
  BindSaver(module);
  BindEvents(module);
  nb::class_<TrainerBox>(module, "TrainerBase", nb::type_slots(traversed_slots<TrainerBox>))
      .def("__init__", &MakeTrainer, nb::arg("model"), nb::arg("loss"), nb::arg("metrics"), nb::arg("update"), nb::arg("feeds"), nb::arg("feed"),
           nb::arg("examples"), nb::arg("options"), nb::arg("on_step").none(), nb::arg("on_message").none())
      .def_ro("model", &TrainerBox::model)
      .def_prop_ro("step", [](const TrainerBox& self) { return self.trainer->step(); }, "Finished steps.")
      .def("_begin", &Begin)
      .def("_run", &RunTrainer)
      .def("stop", [](TrainerBox& self) { self.stop = true; }, "Ends the loop after the step that runs, with a checkpoint where it keeps any.");
}

}  // namespace tenon::python
