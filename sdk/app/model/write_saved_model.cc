// SPDX-License-Identifier: Apache-2.0
#include "tenon/model/write_saved_model.h"

#include "sdk/app/model/variable_values.h"
#include "tenon/data/file.h"
#include "tenon/model/graph_index.h"
#include "tenon/model/graph_part.h"
#include "tenon/bytes/wire.h"

namespace tenon::model {
namespace {

using host::Graph;
using host::Operation;
using host::Output;
using sdk::WireWriter;

// Field numbers of tensorflow.MetaGraphDef and the messages in it.
constexpr uint32_t kSavedMapKey = 1, kMapValue = 2;

std::string WithIndex(const std::string& tensor) {
  return tensor.find(':') == std::string::npos ? tensor + ":0" : tensor;
}

Result<std::string> TensorInfoBytes(const Graph& graph, const std::string& tensor) {
  const std::string name = WithIndex(tensor);
  const size_t colon = name.rfind(':');
  TENON_TRY_ASSIGN(const Operation node, graph.Find(name.substr(0, colon)));
  const Output output = node.output(static_cast<int32_t>(std::strtol(name.c_str() + colon + 1, nullptr, 10)));
  if (output.dtype() == DType::kInvalid) return Status(Code::kNotFound, "the graph has no tensor '" + name + "'");
  WireWriter info, shape;
  const Shape known = output.shape();
  for (int64_t size : known.dims()) {
    WireWriter dim;
    dim.Varint(1, static_cast<uint64_t>(size));
    shape.Bytes(2, dim.bytes());
  }
  if (!known.has_rank()) shape.Varint(3, 1);
  info.Bytes(1, name);
  info.Varint(2, static_cast<uint64_t>(output.dtype()));
  info.Bytes(3, shape.bytes());
  return info.bytes();
}

Result<std::string> SignatureBytes(const Graph& graph, const SignatureSpec& spec) {
  WireWriter signature;
  for (const auto& [field, tensors] : {std::pair(1u, &spec.inputs), std::pair(2u, &spec.outputs)}) {
    for (const auto& [key, tensor] : *tensors) {
      const Result<std::string> info = TensorInfoBytes(graph, tensor);
      if (!info.ok()) return info.status().Annotate("signature '" + spec.name + "', '" + key + "'");
      WireWriter entry;
      entry.Bytes(kSavedMapKey, key);
      entry.Bytes(kMapValue, *info);
      signature.Bytes(field, entry.bytes());
    }
  }
  signature.Bytes(3, spec.method);
  return signature.bytes();
}

void AddCollection(WireWriter& meta, std::string_view name, const std::vector<std::string>& values) {
  if (values.empty()) return;
  WireWriter list, collection, entry;
  for (const std::string& value : values) list.Bytes(1, value);
  collection.Bytes(2, list.bytes());
  entry.Bytes(kSavedMapKey, name);
  entry.Bytes(kMapValue, collection.bytes());
  meta.Bytes(4, entry.bytes());
}

Result<std::string> SavedModelBytes(const Graph& graph, const AddedSaver& added, const WriteOptions& options) {
  const SaverNames& saver = added.names;
  WireWriter info, meta, model;
  for (const std::string& tag : options.tags) info.Bytes(4, tag);
  meta.Bytes(1, info.bytes());
  TENON_TRY_ASSIGN(const std::string graph_def, graph.Export());
  meta.Bytes(2, graph_def);
  if (!saver.restore_op.empty()) {
    meta.Bytes(3, SaverDefBytes(saver));
  }
  AddCollection(meta, "variables", added.variables);
  AddCollection(meta, "trainable_variables", added.trainable_variables);
  for (const SignatureSpec& spec : options.signatures) {
    TENON_TRY_ASSIGN(const std::string signature, SignatureBytes(graph, spec));
    WireWriter entry;
    entry.Bytes(kSavedMapKey, spec.name);
    entry.Bytes(kMapValue, signature);
    meta.Bytes(5, entry.bytes());
  }
  model.Varint(1, 1);
  model.Bytes(2, meta.bytes());
  return model.bytes();
}

Status Write(const Runtime& runtime, Session& session, std::string_view graph_def, const std::string& folder,
             const WriteOptions& options) {
  const std::string file = data::JoinPath(folder, "saved_model.pb");
  const bool exists = data::FileExists(file);
  if (exists && !options.replace) return Status(Code::kAlreadyExists, "there is a model already");
  if (options.signatures.empty())
    return Status(Code::kInvalidArgument, "a model needs a signature, which says what can be run");
  std::vector<std::string> targets;
  for (const SignatureSpec& spec : options.signatures) {
    for (const auto* tensors : {&spec.inputs, &spec.outputs}) {
      for (const auto& [key, tensor] : *tensors) targets.push_back(tensor);
    }
  }
  TENON_TRY_ASSIGN(const GraphIndex index, GraphIndex::Build(graph_def));
  TENON_TRY_ASSIGN(const GraphPart part, CutGraph(index, targets, Devices::kDropped));
  TENON_TRY_ASSIGN(Graph graph, Graph::Import(runtime, part.graph_def));
  if (exists) TENON_TRY(host::RemoveFile(file));
  TENON_TRY(data::MakeFolder(data::JoinPath(folder, "variables")));
  AddedSaver saver;
  if (!part.variables.empty()) {
    TENON_TRY_ASSIGN(const std::vector<Tensor> values, ReadValues(runtime, session, part.graph_def, part.variables));
    const std::string prefix = data::JoinPath(data::JoinPath(folder, "variables"), "variables");
    std::vector<BundleEntry> entries;
    for (size_t i = 0; i < values.size(); ++i) entries.push_back({part.variables[i].name, "", values[i]});
    TENON_TRY(WriteBundle(runtime, entries, prefix));
    saver = AddSaver(graph, part.variables, "saver");
  }
  TENON_TRY(graph.status());
  TENON_TRY_ASSIGN(const std::string bytes, SavedModelBytes(graph, saver, options));
  return data::ReplaceFile(file, {bytes});
}

}  // namespace

Status WriteSavedModel(const Runtime& runtime, Session& session, std::string_view graph_def, const std::string& folder,
                       const WriteOptions& options) {
  return Write(runtime, session, graph_def, folder, options).Annotate("writing the model '" + folder + "'");
}

}  // namespace tenon::model
