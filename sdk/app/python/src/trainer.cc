// SPDX-License-Identifier: Apache-2.0
// The training loop.
#include "tenon/train/trainer.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <optional>

#include "session.h"
#include "train_model.h"

namespace tenon::python {
namespace {

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

// A training loop with callbacks in Python, which run in the thread that called run(). What a callback raises,
// KeyboardInterrupt too, ends the loop: from on_step after a last checkpoint.
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
        return Status(Code::kInvalidArgument, "feed(" + std::to_string(step) + ") gave " +
                                                  std::to_string(nb::len(values)) + " values for " +
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
  options.steps = given["steps"].is_none() ? train::kEndless : nb::cast<int64_t>(given["steps"]);
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
  options.prefetch_device = nb::cast<std::string>(given["prefetch_device"]);
  options.stop = stop;
  return options;
}

void MakeTrainer(TrainerBox* self, nb::object model, const OutputBox& loss, nb::dict metrics,
                 const OperationBox& update, nb::list feeds, nb::object feed, nb::object input, int64_t examples,
                 nb::dict options, nb::object on_step, nb::object on_message) {
  new (self) TrainerBox{model, feed, on_step, on_message, nullptr, nullptr, {}, {}, {}, {}, {}};
  auto& variables = nb::cast<ModelOfVariables&>(model);
  train::TrainingStep step;
  step.loss = loss.output;
  for (const auto& [name, output] : metrics) {
    self->metric_names.push_back(nb::cast<std::string>(name));
    step.metrics.emplace_back(self->metric_names.back(), nb::cast<OutputBox&>(output).output);
  }
  step.update = update.operation;
  step.feeds = ToOutputs(feeds);
  for (const host::Output& output : step.feeds) self->feed_types.push_back(output.dtype());
  step.feed = [self](int64_t number) { return self->Feed(number); };
  if (!input.is_none())  // (begin, get_next)
    step.Reads({nb::cast<OperationBox&>(input[0]).operation, nb::cast<OperationBox&>(input[1]).operation,
                nb::cast<OperationBox&>(input[1]).operation.outputs()});
  step.examples = examples;
  const train::TrainingOptions c_options = ToTrainingOptions(options, &self->stop);
  self->trainer =
      variables.Do([&](train::Model& of) { return std::make_unique<train::Trainer>(of, std::move(step), c_options); });
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

// The session may end then.
void LeaveSession(TrainerBox& self) {
  std::shared_ptr<host::Session> session = std::move(self.session);
  const WithoutLock unlocked;
  self.trainer->Leave();
  session.reset();
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
  values["input_ended"] = done.input_ended;
  values["seconds"] = done.seconds;
  values["examples_per_second"] = done.examples_per_second;
  values["checkpoint"] = done.checkpoint;
  return values;
}

// Values that come to a device ahead.
struct PrefetcherBox {
  std::shared_ptr<const host::Runtime> runtime;
  std::shared_ptr<host::Session> session;
  std::shared_ptr<train::DevicePrefetcher>
      prefetcher;  // its end waits for a step that is given up, without the interpreter's lock
};

PrefetcherBox MakePrefetcher(const SessionBox& session, nb::list values, const std::string& device, size_t depth) {
  PrefetcherBox made{session.runtime, Live(session), nullptr};
  const std::vector<host::Output> outputs = ToOutputs(values);
  Result<std::unique_ptr<train::DevicePrefetcher>> prefetcher = [&] {
    const WithoutLock unlocked;
    return train::DevicePrefetcher::Create(*made.session, outputs, device, depth);
  }();
  made.prefetcher = {Take(std::move(prefetcher)).release(), [](train::DevicePrefetcher* ended) {
                       const WithoutLock unlocked;
                       delete ended;
                     }};
  return made;
}

nb::list NextOf(const PrefetcherBox& self) {
  const auto kept = self.prefetcher;
  const auto comes = [&] {
    const WithoutLock unlocked;
    return kept->Wait(std::chrono::milliseconds(50));
  };
  while (!comes())
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  Result<std::vector<Tensor>> values = [&] {
    const WithoutLock unlocked;
    return kept->Next();
  }();
  nb::list all;
  for (const Tensor& tensor : Take(std::move(values))) all.append(FromTensor(tensor, self.runtime));
  return all;
}

}  // namespace

void BindTrainers(nb::module_& module) {
  nb::class_<PrefetcherBox>(
      module, "DevicePrefetcher",
      "Values of a session's own input, as a tenon.data iterator's `get_next.outputs`, copied to a device while the "
      "steps before them run: `depth` steps' of them lie ready there.\n\n"
      "next() gives a list of the next ones, which a callable that was prepared with feed_devices=prefetcher.devices "
      "is fed; texts stay in host memory. Iterating ends where the\n"
      "input does. Nothing is lost: what is ready comes before a failure, and that once.")
      .def(
          "__init__",
          [](PrefetcherBox* self, const SessionBox& session, nb::list values, const std::string& device, size_t depth) {
            new (self) PrefetcherBox(MakePrefetcher(session, values, device, depth));
          },
          nb::arg("session"), nb::arg("values"), nb::arg("device"), nb::arg("depth") = 2)
      .def("next", &NextOf)
      .def("__iter__", [](nb::object self) { return self; })
      .def("__next__",
           [](const PrefetcherBox& self) {
             try {
               return NextOf(self);
             } catch (const StatusError& error) {
               if (error.status().code() != Code::kOutOfRange) throw;
             }
             throw nb::stop_iteration();
           })
      .def_prop_ro(
          "devices", [](const PrefetcherBox& self) { return self.prefetcher->devices(); },
          "Where each value lies: the device, or \"\".");
  nb::class_<TrainerBox>(module, "TrainerBase", nb::type_slots(traversed_slots<TrainerBox>))
      .def("__init__", &MakeTrainer, nb::arg("model"), nb::arg("loss"), nb::arg("metrics"), nb::arg("update"),
           nb::arg("feeds"), nb::arg("feed"), nb::arg("input").none(), nb::arg("examples"), nb::arg("options"),
           nb::arg("on_step").none(), nb::arg("on_message").none())
      .def_ro("model", &TrainerBox::model)
      .def_prop_ro(
          "step", [](const TrainerBox& self) { return self.trainer->step(); }, "Finished steps.")
      .def("_begin", &Begin)
      .def("_leave", &LeaveSession)
      .def("_run", &RunTrainer)
      .def(
          "stop", [](TrainerBox& self) { self.stop = true; },
          "Ends the loop after the step that runs, with a checkpoint where it keeps any.");
}

}  // namespace tenon::python
