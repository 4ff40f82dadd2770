// SPDX-License-Identifier: Apache-2.0
// Checkpoints and event files of training.
#include "tenon/train/saver.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "session.h"
#include "tenon/train/event_file.h"
#include "train_model.h"

namespace tenon::python {
namespace {

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

void BindSaver(nb::module_& module) {
  nb::class_<SaverBox>(module, "SaverBase", nb::type_slots(traversed_slots<SaverBox>))
      .def("__init__", [](SaverBox* self, nb::object model, const std::string& folder,
                          nb::dict options) { new (self) SaverBox(MakeSaver(model, folder, options)); })
      .def_prop_ro("folder", [](const SaverBox& self) { return self.saver->folder(); })
      .def(
          "_save",
          [](SaverBox& self, const SessionBox& session, int64_t step, std::optional<double> metric) {
            const WithoutLock unlocked;
            return Take(self.saver->Save(*Live(session), step, metric));
          },
          nb::arg("session"), nb::arg("step"), nb::arg("metric").none())
      .def("_restore_newest",
           [](SaverBox& self, const SessionBox& session) {
             train::Restored restored;
             {
               const WithoutLock unlocked;
               restored = Take(self.saver->RestoreNewest(*Live(session)));
             }
             return nb::make_tuple(restored.prefix, restored.step, restored.warnings);
           })
      .def("_restore_from",
           [](SaverBox& self, const SessionBox& session, const std::string& prefix) {
             const WithoutLock unlocked;
             Check(self.saver->RestoreFrom(*Live(session), prefix));
           })
      .def(
          "clear",
          [](SaverBox& self) {
            const WithoutLock unlocked;
            Check(self.saver->Clear());
          },
          "Removes the folder's checkpoints.");
}

void BindEvents(nb::module_& module) {
  using train::EventWriter;
  nb::class_<EventWriter>(module, "EventWriterBase")
      .def("__init__", [](EventWriter* self,
                          const std::string& folder) { new (self) EventWriter(Take(EventWriter::Create(folder))); })
      .def_prop_ro("path", &EventWriter::path)
      .def("_add_scalars",
           [](EventWriter& self, int64_t step, const std::vector<std::pair<std::string, float>>& values) {
             Check(self.AddScalars(step, values));
           })
      .def("_add_graph",
           [](EventWriter& self, nb::bytes graph_def) {
             Check(self.AddGraph({graph_def.c_str(), graph_def.size()}));
           })
      .def(
          "add_start", [](EventWriter& self, int64_t step) { Check(self.AddStart(step)); }, nb::arg("step"),
          "A run begins again at this step.")
      .def(
          "flush", [](EventWriter& self) { Check(self.Flush()); }, "Gives what was added to the file system.");
}

}  // namespace

void BindSavers(nb::module_& module) {
  BindSaver(module);
  BindEvents(module);
}

}  // namespace tenon::python
