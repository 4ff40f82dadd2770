// SPDX-License-Identifier: Apache-2.0
// L-BFGS.
#include "tenon/train/lbfgs.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>

#include "interrupt.h"
#include "session.h"
#include "train_model.h"

namespace tenon::python {
namespace {

nb::dict FromResult(const train::LbfgsResult& result) {
  nb::dict values;
  const std::string_view end = train::LbfgsEndName(result.end);
  values["end"] = nb::str(end.data(), end.size());
  values["iterations"] = result.iterations;
  values["evaluations"] = result.evaluations;
  values["left_out"] = result.left_out;
  values["loss"] = result.loss;
  values["gradient_norm"] = result.gradient_norm;
  return values;
}

struct LbfgsBox {
  nb::object model, on_iteration;
  std::unique_ptr<train::Lbfgs> lbfgs;
  std::optional<nb::python_error> raised;
  CallGroup* stop = nullptr;  // of the run that is under way

  void VisitKept(const auto& visit) const {
    for (const nb::object* kept : {&model, &on_iteration}) visit(*kept);
  }
  void After(const train::LbfgsResult& result) {
    const WithLock locked;
    if (on_iteration.is_none() || raised) return;
    try {
      on_iteration(FromResult(result));
    } catch (nb::python_error& error) {
      raised.emplace(std::move(error));
      stop->End();
    }
  }
};

void Make(LbfgsBox* self, nb::object model, const OutputBox& loss, nb::dict given, nb::object on_iteration) {
  new (self) LbfgsBox{model, on_iteration, nullptr, {}, nullptr};
  train::LbfgsOptions options;
  options.history = nb::cast<int64_t>(given["history"]);
  options.max_iterations = nb::cast<int64_t>(given["max_iterations"]);
  options.gradient_tolerance = nb::cast<double>(given["gradient_tolerance"]);
  options.max_evaluations = nb::cast<int64_t>(given["max_evaluations"]);
  options.sufficient_decrease = nb::cast<double>(given["sufficient_decrease"]);
  options.curvature = nb::cast<double>(given["curvature"]);
  options.after_iteration = [self](const train::LbfgsResult& result) { self->After(result); };
  self->lbfgs = nb::cast<ModelOfVariables&>(model).Do(
      [&](train::Model& of) { return std::make_unique<train::Lbfgs>(of, loss.output, options); });
}

nb::dict Run(LbfgsBox& self, const SessionBox& session, nb::list feed_names, nb::list values, nb::list types,
             nb::object timeout) {
  if (self.stop != nullptr) Fail(Code::kFailedPrecondition, "a run is under way already");
  const NamedFeeds given = ToFeeds(feed_names, values, types);
  const auto live = Live(session);
  host::RunOptions options = ToRunOptions(timeout);
  CallGroup own;
  std::optional<train::LbfgsResult> result;
  CallHistory history;
  self.raised.reset();
  self.stop = &own;
  const auto over = std::unique_ptr<LbfgsBox, void (*)(LbfgsBox*)>(&self, [](LbfgsBox* box) { box->stop = nullptr; });
  Status status = RunInterruptibly(
      history,
      [&](const host::Cancellation& stop) -> Status {
        options.cancellation = &stop;
        TENON_TRY_ASSIGN(result, self.lbfgs->Run(*live, given.feeds, options));
        return Status();
      },
      {&own, session.calls.get()});
  if (self.raised) {
    const nb::python_error thrown(*self.raised);
    self.raised.reset();
    throw thrown;
  }
  Check(std::move(status));
  return FromResult(*result);
}

}  // namespace

void BindLbfgs(nb::module_& module) {
  nb::class_<LbfgsBox>(module, "LbfgsBase", nb::type_slots(traversed_slots<LbfgsBox>))
      .def("__init__", &Make, nb::arg("model"), nb::arg("loss"), nb::arg("options"), nb::arg("on_iteration").none())
      .def("_run", &Run, nb::arg("session"), nb::arg("feed_names"), nb::arg("values"), nb::arg("types"),
           nb::arg("timeout").none());
}

}  // namespace tenon::python
