// SPDX-License-Identifier: Apache-2.0
#include "tenon/model/write_saved_model.h"

#include <set>

#include "tenon/data/file.h"
#include "tenon/model/graph_index.h"
#include "tenon/sdk/wire.h"

namespace tenon::model {
namespace {

using host::Attrs;
using host::Graph;
using host::Operation;
using host::Output;
using data::FunctionView;
using data::NodeView;
using sdk::WireReader;
using sdk::WireWriter;

// Field numbers of tensorflow.GraphDef, MetaGraphDef and the messages in them.
constexpr uint32_t kGraphNode = 1, kGraphLibrary = 2, kGraphVersions = 4, kLibraryFunction = 1, kNodeDevice = 4;
constexpr uint32_t kMapKey = 1, kMapValue = 2;
constexpr uint32_t kSaverVersionTwo = 2;

struct SavedVariable {
  std::string name;
  DType dtype = DType::kInvalid;
  bool is_reference = false;
};

// The part of a graph that nodes reach, as a GraphDef of its own.
class Part {
 public:
  static Result<Part> Cut(const GraphIndex& graph, const std::vector<std::string>& targets) {
    Part part;
    TENON_TRY_ASSIGN(const std::vector<const NodeView*> nodes, graph.Reach({}, targets));
    const std::set<const NodeView*> wanted(nodes.begin(), nodes.end());
    WireWriter writer, library;
    for (const NodeView& node : graph.graph().nodes) {
      if (!wanted.contains(&node)) continue;
      TENON_TRY(part.Add(graph, node));
      writer.Bytes(kGraphNode, WithoutDevice(node));
    }
    TENON_TRY(part.AddFunctions(graph));
    for (const FunctionView& function : graph.functions()) {
      if (part.functions_.contains(&function)) library.Bytes(kLibraryFunction, function.bytes);
    }
    if (!part.functions_.empty()) writer.Bytes(kGraphLibrary, library.bytes());
    if (!graph.graph().versions.empty()) writer.Bytes(kGraphVersions, graph.graph().versions);
    part.graph_def_ = writer.bytes();
    return part;
  }

  const std::string& graph_def() const { return graph_def_; }
  const std::vector<SavedVariable>& variables() const { return variables_; }

 private:
  static std::string WithoutDevice(const NodeView& node) {
    if (node.device.empty()) return std::string(node.bytes);
    std::string bytes;
    WireReader reader(node.bytes);
    while (reader.Next()) {
      if (reader.field() != kNodeDevice) bytes += reader.whole();
    }
    return bytes;
  }

  Status Add(const GraphIndex& graph, const NodeView& node) {
    const bool reference = node.op == "VariableV2" || node.op == "Variable";
    if (reference || node.op == "VarHandleOp") variables_.push_back({std::string(node.name), node.TypeAttr("dtype"), reference});
    for (const FunctionView* function : graph.FunctionsOf(node)) {
      if (functions_.insert(function).second) left_.push_back(function);
    }
    return Status();
  }

  Status AddFunctions(const GraphIndex& graph) {
    const size_t outside = variables_.size();
    while (!left_.empty()) {
      const FunctionView& function = *left_.back();
      left_.pop_back();
      for (const NodeView& node : function.nodes) TENON_TRY(Add(graph, node));
      if (variables_.size() == outside) continue;
      return Status(Code::kUnimplemented, "function '" + std::string(function.name) + "' creates the variable '" + variables_.back().name +
                                              "', whose value cannot be saved; create it outside and hand it in");
    }
    return Status();
  }

  std::string graph_def_;
  std::vector<SavedVariable> variables_;
  std::set<const FunctionView*> functions_;
  std::vector<const FunctionView*> left_;
};

// Names, types and pieces of variables, as SaveV2 and RestoreV2 want them.
struct BundleInputs {
  std::vector<std::string> names, slices;
  std::vector<DType> dtypes;
  explicit BundleInputs(const std::vector<SavedVariable>& variables) : slices(variables.size()) {
    for (const SavedVariable& variable : variables) {
      names.push_back(variable.name);
      dtypes.push_back(variable.dtype);
    }
  }
};

// The values that the session's variables have now. Nodes of ours read them: the graph's own may wait for what changes them.
Result<std::vector<Tensor>> ReadValues(const Runtime& runtime, Session& session, std::string_view graph_def, const std::vector<SavedVariable>& variables) {
  TENON_TRY_ASSIGN(Graph graph, Graph::Import(runtime, graph_def));
  std::vector<host::Name> reads;
  for (const SavedVariable& variable : variables) {
    if (variable.is_reference) {
      reads.emplace_back(variable.name);
      continue;
    }
    TENON_TRY_ASSIGN(const Operation handle, graph.Find(variable.name));
    reads.emplace_back(graph.Op("ReadVariableOp", {handle}, {{"dtype", variable.dtype}}, variable.name + "/value_to_save"));
  }
  TENON_TRY(session.Extend(graph));
  return session.Run({}, reads);
}

Status WriteBundle(const Runtime& runtime, const std::vector<SavedVariable>& variables, const std::vector<Tensor>& values, const std::string& prefix) {
  const BundleInputs bundle(variables);
  Graph graph(runtime);
  std::vector<Output> inputs = {graph.StringConst(prefix), graph.StringConst(bundle.names), graph.StringConst(bundle.slices)};
  std::vector<host::Feed> feeds;
  for (size_t i = 0; i < values.size(); ++i) {
    inputs.push_back(graph.Placeholder("value", values[i].dtype(), values[i].shape()));
    feeds.push_back({inputs.back(), View(values[i])});
  }
  const Operation save = graph.AddNode("SaveV2", inputs, {{"dtypes", bundle.dtypes}}, "save");
  TENON_TRY_ASSIGN(Session session, Session::Create(runtime, graph));
  return session.RunTargets({save}, feeds);
}

// What was added to a graph for its variables: the saver, and a description of each for those who train on.
struct AddedSaver {
  SaverNames names;
  std::vector<std::string> variables;            // serialized VariableDefs, of resource variables
  std::vector<std::string> trainable_variables;  // of those of floating numbers
};

// initializer: the node that gives it its value; value: what that value is; read: a node that reads it.
std::string VariableDef(const SavedVariable& variable, const Operation& initializer, const Output& value, const Output& read, bool trainable) {
  WireWriter writer;
  writer.Bytes(1, variable.name + ":0");
  writer.Bytes(2, initializer.name());
  writer.Bytes(3, read.name() + ":0");
  writer.Varint(5, 1);  // a resource
  writer.Bytes(6, value.index() == 0 ? value.name() + ":0" : value.name());
  writer.Varint(7, trainable ? 1 : 0);
  return writer.bytes();
}

// Nodes that save and restore the variables.
AddedSaver AddSaver(Graph& graph, const std::vector<SavedVariable>& variables) {
  auto scope = graph.Scope("saver");
  const BundleInputs bundle(variables);
  AddedSaver added;
  const Output filename = graph.Placeholder("filename", DType::kString, Shape());
  const Output names = graph.StringConst(bundle.names, "names"), slices = graph.StringConst(bundle.slices, "slices");
  std::vector<Output> save_inputs = {filename, names, slices};
  const Operation restore = graph.AddNode("RestoreV2", {filename, names, slices}, {{"dtypes", bundle.dtypes}}, "restore");
  std::vector<Operation> assigns;
  for (size_t i = 0; i < variables.size(); ++i) {
    const SavedVariable& variable = variables[i];
    const host::Result<Operation> found = graph.Find(variable.name);
    if (!found.ok()) {
      graph.Fail(found.status());
      break;
    }
    const Attrs dtype = {{variable.is_reference ? "T" : "dtype", variable.dtype}};
    const Output value = restore.output(static_cast<int32_t>(i));
    save_inputs.push_back(variable.is_reference ? Output(*found) : graph.Op("ReadVariableOp", {*found}, dtype, "read"));
    assigns.push_back(graph.AddNode(variable.is_reference ? "Assign" : "AssignVariableOp", {*found, value}, dtype, "assign"));
    if (variable.is_reference) continue;
    const bool trainable = variable.dtype == DType::kFloat || variable.dtype == DType::kDouble || variable.dtype == DType::kHalf || variable.dtype == DType::kBfloat16;
    added.variables.push_back(VariableDef(variable, assigns.back(), value, save_inputs.back(), trainable));
    if (trainable) added.trainable_variables.push_back(added.variables.back());
  }
  const Operation save = graph.AddNode("SaveV2", save_inputs, {{"dtypes", bundle.dtypes}}, "save");
  {
    const auto after = graph.ControlDependencies({save});
    added.names.save_tensor = graph.Op("Identity", {filename}, {}, "saved").name() + ":0";
  }
  const auto after = graph.ControlDependencies(assigns);
  added.names.restore_op = graph.AddNode("NoOp", {}, {}, "restore_all").name();
  added.names.filename_tensor = filename.name() + ":0";
  return added;
}

std::string WithIndex(const std::string& tensor) { return tensor.find(':') == std::string::npos ? tensor + ":0" : tensor; }

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
      entry.Bytes(kMapKey, key);
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
  entry.Bytes(kMapKey, name);
  entry.Bytes(kMapValue, collection.bytes());
  meta.Bytes(4, entry.bytes());
}

Result<std::string> SavedModelBytes(const Graph& graph, const AddedSaver& added, const WriteOptions& options) {
  const SaverNames& saver = added.names;
  WireWriter info, saver_def, meta, model;
  for (const std::string& tag : options.tags) info.Bytes(4, tag);
  meta.Bytes(1, info.bytes());
  TENON_TRY_ASSIGN(const std::string graph_def, graph.Export());
  meta.Bytes(2, graph_def);
  if (!saver.restore_op.empty()) {
    saver_def.Bytes(1, saver.filename_tensor);
    saver_def.Bytes(2, saver.save_tensor);
    saver_def.Bytes(3, saver.restore_op);
    saver_def.Varint(7, kSaverVersionTwo);
    meta.Bytes(3, saver_def.bytes());
  }
  AddCollection(meta, "variables", added.variables);
  AddCollection(meta, "trainable_variables", added.trainable_variables);
  for (const SignatureSpec& spec : options.signatures) {
    TENON_TRY_ASSIGN(const std::string signature, SignatureBytes(graph, spec));
    WireWriter entry;
    entry.Bytes(kMapKey, spec.name);
    entry.Bytes(kMapValue, signature);
    meta.Bytes(5, entry.bytes());
  }
  model.Varint(1, 1);
  model.Bytes(2, meta.bytes());
  return model.bytes();
}

Status Write(const Runtime& runtime, Session& session, std::string_view graph_def, const std::string& folder, const WriteOptions& options) {
  const std::string file = data::JoinPath(folder, "saved_model.pb");
  const bool exists = data::FileExists(file);
  if (exists && !options.replace) return Status(Code::kAlreadyExists, "there is a model already");
  if (options.signatures.empty()) return Status(Code::kInvalidArgument, "a model needs a signature, which says what can be run");
  std::vector<std::string> targets;
  for (const SignatureSpec& spec : options.signatures) {
    for (const auto* tensors : {&spec.inputs, &spec.outputs}) {
      for (const auto& [key, tensor] : *tensors) targets.push_back(tensor);
    }
  }
  TENON_TRY_ASSIGN(const GraphIndex index, GraphIndex::Build(graph_def));
  TENON_TRY_ASSIGN(const Part part, Part::Cut(index, targets));
  TENON_TRY_ASSIGN(Graph graph, Graph::Import(runtime, part.graph_def()));
  if (exists) TENON_TRY(host::RemoveFile(file));
  TENON_TRY(data::MakeFolder(data::JoinPath(folder, "variables")));
  AddedSaver saver;
  if (!part.variables().empty()) {
    TENON_TRY_ASSIGN(const std::vector<Tensor> values, ReadValues(runtime, session, part.graph_def(), part.variables()));
    const std::string prefix = data::JoinPath(data::JoinPath(folder, "variables"), "variables");
    TENON_TRY(WriteBundle(runtime, part.variables(), values, prefix));
    saver = AddSaver(graph, part.variables());
  }
  TENON_TRY(graph.status());
  TENON_TRY_ASSIGN(const std::string bytes, SavedModelBytes(graph, saver, options));
  return data::ReplaceFile(file, {bytes});
}

}  // namespace

Status WriteSavedModel(const Runtime& runtime, Session& session, std::string_view graph_def, const std::string& folder, const WriteOptions& options) {
  return Write(runtime, session, graph_def, folder, options).Annotate("writing the model '" + folder + "'");
}

}  // namespace tenon::model
