// SPDX-License-Identifier: Apache-2.0
// Models as files (sdk/app/model): loaded, run by a signature's names or by the graph's, written.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "graph.h"
#include "interrupt.h"
#include "session.h"
#include "tenon/data/file.h"
#include "tenon/data/graph_def.h"
#include "tenon/model/load.h"
#include "tenon/model/graph_index.h"
#include "tenon/model/write_saved_model.h"
#include "tenon/model/write_values.h"
#include "text.h"

namespace tenon::python {
namespace {

struct ModelBox {
  std::shared_ptr<const host::Runtime> runtime;
  std::shared_ptr<model::Model> model;
  bool allow_files = false;
  using Names = std::vector<std::string>;
  // Steps by the graph's names (fed, wanted) that may run: each is looked at once.
  std::shared_ptr<std::mutex> mutex = std::make_shared<std::mutex>();
  std::set<std::pair<Names, Names>> checked = {};
  std::shared_ptr<CallHistory> history = std::make_shared<CallHistory>();
};

ModelBox Load(const RuntimeBox& runtime, const std::string& path, const std::vector<std::string>& tags,
              nb::dict options, bool allow_files) {
  const host::SessionOptions session_options = ToSessionOptions(options);
  const auto access = allow_files ? model::FileAccess::kAny : model::FileAccess::kNone;
  std::shared_ptr<model::Model> loaded;  // let go of without the lock, also where the call is ended
  std::atomic<bool> stop{false};
  CallHistory history;
  Check(RunInterruptibly(
      history,
      [&](const host::Cancellation& cancellation) -> Status {
        TENON_TRY_ASSIGN(const model::ModelFile file, model::ModelFile::Open(path, {.tags = tags}));
        model::LoadEnds ends{{}, &stop};
        ends.run.cancellation = &cancellation;
        TENON_TRY_ASSIGN(model::Model made, model::Model::Load(*runtime.runtime, file, session_options, access, ends));
        loaded = ReleasedWithoutLock(std::move(made));
        return Status();
      },
      {}, &stop));
  return {runtime.runtime, loaded, allow_files};
}

nb::list FromInfos(const std::vector<model::TensorInfo>& infos) {
  nb::list list;
  for (const model::TensorInfo& info : infos)
    list.append(nb::make_tuple(ToStr(info.key), FromDType(info.dtype), FromShape(info.shape),
                               !info.default_value.empty(), ToStr(info.tensor)));
  return list;
}

nb::list Signatures(const ModelBox& self) {
  nb::list list;
  for (const model::Signature& signature : self.model->meta().signatures)
    list.append(nb::make_tuple(ToStr(signature.name), ToStr(signature.method), FromInfos(signature.inputs),
                               FromInfos(signature.outputs)));
  return list;
}

nb::dict RunSignature(const ModelBox& self, const std::string& name, nb::dict inputs, nb::object timeout,
                      nb::object cancellation) {
  const model::Signature& signature = *Take(self.model->FindSignature(name));
  model::NamedTensors values;
  for (const auto& [key, value] : inputs) {
    const auto input = nb::cast<std::string>(key);
    const model::TensorInfo* info = signature.FindInput(input);
    values.emplace_back(input, ToTensor(value, info == nullptr ? DType::kInvalid : info->dtype, false,
                                        "signature '" + name + "': input '" + input + "'"));
  }
  host::RunOptions options = ToRunOptions(timeout);
  model::NamedTensors outputs;
  Check(RunInterruptibly(
      *self.history,
      [&](const host::Cancellation& stop) -> Status {
        options.cancellation = &stop;
        TENON_TRY_ASSIGN(outputs, self.model->Run(name, values, options));
        return Status();
      },
      {ToGroup(cancellation)}));
  nb::dict results;
  for (const auto& [key, value] : outputs) results[ToStr(key)] = FromTensor(value, self.runtime);
  return results;
}

// Throws PERMISSION_DENIED where a step by these names would touch files of the model's choice.
void CheckRun(ModelBox& self, const std::vector<std::string>& feeds, const std::vector<std::string>& targets) {
  if (self.allow_files) return;
  std::pair key(feeds, targets);
  const WithoutLock unlocked;
  const std::lock_guard lock(*self.mutex);
  if (self.checked.contains(key)) return;
  Check(model::CheckRun(*self.runtime, self.model->file(), feeds, feeds, targets));
  self.checked.insert(std::move(key));
}

void Write(const RuntimeBox& runtime, const SessionBox& session, nb::bytes graph_def, const std::string& folder,
           nb::list signatures, const std::vector<std::string>& tags, bool replace) {
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  model::WriteOptions options;
  options.tags = tags;
  options.replace = replace;
  for (const nb::handle signature : signatures) {
    model::SignatureSpec& spec = options.signatures.emplace_back();
    spec.name = nb::cast<std::string>(signature[0]);
    spec.inputs = nb::cast<Pairs>(signature[1]);
    spec.outputs = nb::cast<Pairs>(signature[2]);
    spec.method = nb::cast<std::string>(signature[3]);
  }
  const std::string_view bytes(graph_def.c_str(), graph_def.size());
  const WithoutLock unlocked;
  Check(model::WriteSavedModel(*runtime.runtime, *Live(session), bytes, folder, options));
}

// A loaded model with the values that it has now; gives what can be opened, and what stayed as it was.
nb::tuple WriteTrained(const ModelBox& self, const std::string& folder, bool replace) {
  model::WrittenValues written;
  {
    const WithoutLock unlocked;
    const model::ModelFile& file = self.model->file();
    const std::string there =
        data::JoinPath(folder, file.form() == model::Form::kSavedModel ? "saved_model.pb" : "model.meta");
    if (!replace && data::FileExists(there))
      Check(Status(Code::kAlreadyExists,
                   "writing the model '" + folder + "': there is a model already; replace=True replaces it"));
    const model::GraphIndex graph = Take(model::GraphIndex::Build(file.graph_def()));
    std::vector<std::string> variables;
    for (const data::NodeView& node : graph.graph().nodes)
      if (node.op == "VarHandleOp" || node.op == "VariableV2" || node.op == "Variable")
        variables.emplace_back(node.name);
    written = Take(model::WriteWithValues(*self.runtime, self.model->session(), file, variables, folder));
  }
  return nb::make_tuple(ToStr(written.path), written.notes);
}

// (queue, enqueue ops, close op, cancel op, names of the codes by which an enqueue op ends) of each.
nb::list QueueRunners(const ModelBox& self) {
  nb::list all;
  for (const model::QueueRunner& runner : self.model->meta().queue_runners) {
    std::vector<std::string> codes;
    for (const Code code : runner.closed) codes.emplace_back(host::CodeName(code));
    all.append(nb::make_tuple(runner.queue, runner.enqueue_ops, runner.close_op, runner.cancel_op, codes));
  }
  return all;
}

void BindFiles(nb::module_& module) {
  module.def("_write_file", [](const std::string& path, nb::bytes bytes) {
    const std::string_view piece(bytes.c_str(), bytes.size());
    const WithoutLock unlocked;
    Check(data::ReplaceFile(path, {piece}));
  });
  module.def("_freeze", [](const SessionBox& session, nb::bytes graph_def, const std::vector<std::string>& outputs) {
    std::string frozen;
    {
      const WithoutLock unlocked;
      frozen = Take(data::Freeze(*Live(session), {graph_def.c_str(), graph_def.size()}, outputs));
    }
    return nb::bytes(frozen.data(), frozen.size());
  });
}

}  // namespace

void BindModels(nb::module_& module) {
  nb::class_<ModelBox>(module, "ModelBase", nb::is_weak_referenceable())
      .def("__init__", [](ModelBox* self, const RuntimeBox& runtime, const std::string& path,
                          const std::vector<std::string>& tags, nb::dict options,
                          bool allow_files) { new (self) ModelBox(Load(runtime, path, tags, options, allow_files)); })
      .def("_signatures", &Signatures)
      .def("_run_signature", &RunSignature, nb::arg("name"), nb::arg("inputs"), nb::arg("timeout").none(),
           nb::arg("cancellation").none())
      .def("_check_run", &CheckRun)
      .def("_write_trained", &WriteTrained)
      .def("_session_of",
           [](const ModelBox& self, SessionBox& session) {
             session.runtime = self.runtime;
             session.session = std::shared_ptr<host::Session>(self.model, &self.model->session());
           })
      .def_prop_ro("path", [](const ModelBox& self) { return self.model->file().path(); })
      .def_prop_ro(
          "form", [](const ModelBox& self) { return std::string(model::FormName(self.model->file().form())); },
          "\"SavedModel\", \"GraphDef\", \"MetaGraph\"")
      .def_prop_ro("tags", [](const ModelBox& self) { return self.model->meta().tags; })
      .def("_queue_runners", &QueueRunners)
      .def_prop_ro(
          "notes", [](const ModelBox& self) { return self.model->file().notes(); },
          "What was passed over, one sentence each.")
      .def(
          "graph_def",
          [](const ModelBox& self) {
            const std::string_view bytes = self.model->file().graph_def();
            return nb::bytes(bytes.data(), bytes.size());
          },
          "The graph's bytes, as the file holds them.");
  module.def("_write_saved_model", &Write);
  BindFiles(module);
}

}  // namespace tenon::python
