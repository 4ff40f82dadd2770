// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/model/variable_values.h"

#include "tenon/bytes/wire.h"

namespace tenon::model {

using host::Attrs;
using host::Graph;
using host::Operation;
using host::Output;
using sdk::WireWriter;

Result<std::vector<Tensor>> ReadValues(const Runtime& runtime, Session& session, std::string_view graph_def,
                                       const std::vector<PartVariable>& variables) {
  if (variables.empty()) return std::vector<Tensor>();
  TENON_TRY_ASSIGN(Graph graph, Graph::Import(runtime, graph_def));
  std::vector<host::Name> reads;
  for (const PartVariable& variable : variables) {
    if (variable.is_reference) {
      reads.emplace_back(variable.name);
      continue;
    }
    TENON_TRY_ASSIGN(const Operation handle, graph.Find(variable.name));
    reads.emplace_back(
        graph.Op("ReadVariableOp", {handle}, {{"dtype", variable.dtype}}, variable.name + "/value_to_save"));
  }
  TENON_TRY(session.Extend(graph));
  return session.Run({}, reads);
}

Status WriteBundle(const Runtime& runtime, const std::vector<BundleEntry>& entries, const std::string& prefix) {
  std::vector<std::string> names, slices;
  std::vector<DType> dtypes;
  for (const BundleEntry& entry : entries) {
    names.push_back(entry.name);
    slices.push_back(entry.slice);
    dtypes.push_back(entry.value.dtype());
  }
  Graph graph(runtime);
  std::vector<Output> inputs = {graph.StringConst(prefix), graph.StringConst(names), graph.StringConst(slices)};
  std::vector<host::Feed> feeds;
  for (const BundleEntry& entry : entries) {
    inputs.push_back(graph.Placeholder("value", entry.value.dtype(), entry.value.shape()));
    feeds.push_back({inputs.back(), View(entry.value)});
  }
  const Operation save = graph.AddNode("SaveV2", inputs, {{"dtypes", dtypes}}, "save");
  TENON_TRY_ASSIGN(Session session, Session::Create(runtime, graph));
  return session.RunTargets({save}, feeds);
}

namespace {

// initializer: the node that gives it its value; value: what that value is; read: a node that reads it.
std::string VariableDef(const PartVariable& variable, const Operation& initializer, const Output& value,
                        const Output& read, bool trainable) {
  WireWriter writer;
  writer.Bytes(1, variable.name + ":0");
  writer.Bytes(2, initializer.name());
  writer.Bytes(3, read.name() + ":0");
  writer.Varint(5, 1);  // a resource
  writer.Bytes(6, value.index() == 0 ? value.name() + ":0" : value.name());
  writer.Varint(7, trainable ? 1 : 0);
  return writer.bytes();
}

}  // namespace

AddedSaver AddSaver(Graph& graph, const std::vector<PartVariable>& variables, std::string_view name) {
  auto scope = graph.Scope(name);
  std::vector<std::string> keys, whole(variables.size());
  std::vector<DType> dtypes;
  for (const PartVariable& variable : variables) {
    keys.push_back(variable.name);
    dtypes.push_back(variable.dtype);
  }
  AddedSaver added;
  const Output filename = graph.Placeholder("filename", DType::kString, Shape());
  const Output names = graph.StringConst(keys, "names"), slices = graph.StringConst(whole, "slices");
  std::vector<Output> save_inputs = {filename, names, slices};
  const Operation restore = graph.AddNode("RestoreV2", {filename, names, slices}, {{"dtypes", dtypes}}, "restore");
  std::vector<Operation> assigns;
  for (size_t i = 0; i < variables.size(); ++i) {
    const PartVariable& variable = variables[i];
    const host::Result<Operation> found = graph.Find(variable.name);
    if (!found.ok()) {
      graph.Fail(found.status());
      break;
    }
    const Attrs dtype = {{variable.is_reference ? "T" : "dtype", variable.dtype}};
    const Output value = restore.output(static_cast<int32_t>(i));
    save_inputs.push_back(variable.is_reference ? Output(*found) : graph.Op("ReadVariableOp", {*found}, dtype, "read"));
    assigns.push_back(
        graph.AddNode(variable.is_reference ? "Assign" : "AssignVariableOp", {*found, value}, dtype, "assign"));
    if (variable.is_reference) continue;
    const bool trainable = variable.dtype == DType::kFloat || variable.dtype == DType::kDouble ||
                           variable.dtype == DType::kHalf || variable.dtype == DType::kBfloat16;
    added.variables.push_back(VariableDef(variable, assigns.back(), value, save_inputs.back(), trainable));
    if (trainable) added.trainable_variables.push_back(added.variables.back());
  }
  const Operation save = graph.AddNode("SaveV2", save_inputs, {{"dtypes", dtypes}}, "save");
  {
    const auto after = graph.ControlDependencies({save});
    added.names.save_tensor = graph.Op("Identity", {filename}, {}, "saved").name() + ":0";
  }
  const auto after = graph.ControlDependencies(assigns);
  added.names.restore_op = graph.AddNode("NoOp", {}, {}, "restore_all").name();
  added.names.filename_tensor = filename.name() + ":0";
  return added;
}

std::string SaverDefBytes(const SaverNames& names) {
  constexpr uint32_t kVersionTwo = 2;
  WireWriter saver;
  saver.Bytes(1, names.filename_tensor);
  saver.Bytes(2, names.save_tensor);
  saver.Bytes(3, names.restore_op);
  saver.Varint(7, kVersionTwo);
  return saver.bytes();
}

}  // namespace tenon::model
