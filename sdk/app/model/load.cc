// SPDX-License-Identifier: Apache-2.0
#include "tenon/model/load.h"

#include <algorithm>
#include <filesystem>

#include "sdk/app/model/restored_variables.h"
#include "sdk/app/model/variable_values.h"
#include "tenon/data/file.h"
#include "tenon/model/file_guard.h"
#include "tenon/model/graph_index.h"
#include "tenon/bytes/wire.h"

namespace tenon::model {
namespace {

// Field numbers of tensorflow.GraphDef and the messages in it.
constexpr uint32_t kSavedGraphNode = 1, kNodeName = 1, kNodeOp = 2, kLoadedNodeAttr = 5, kLoadedMapKey = 1,
                   kLoadedMapValue = 2, kAttrType = 6, kAttrTensor = 8;

// Whether a name stays in the folder that it is looked up in.
bool StaysInside(std::string_view name) {
  if (name.empty() || name.starts_with('/') || name.find("://") != std::string_view::npos ||
      name.find('\0') != std::string_view::npos)
    return false;
  while (!name.empty()) {
    const size_t end = std::min(name.find('/'), name.size());
    const std::string_view part = name.substr(0, end);
    if (part == ".." || part == "." || part.empty()) return false;
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return true;
}

// Whether a file of the operating system is, links followed, in a folder. What is not there leads nowhere.
bool LinksStayInside(const std::string& folder, const std::string& path) {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::canonical(path, error);
  if (error) return true;
  const std::filesystem::path root = std::filesystem::canonical(folder, error);
  if (error) return true;
  return std::mismatch(root.begin(), root.end(), file.begin(), file.end()).first == root.end();
}

Status ExtendWithin(Session& session, std::string_view graph_def, const LoadEnds& ends) {
  return Status::Take(
      tenon_session_extend_within(session.get(), host::internal::CRunOptions(ends.run).get(), host::Span(graph_def)));
}

class Loader {
 public:
  Loader(const Runtime& runtime, const ModelFile& file, Session& session, const LoadEnds& ends, Values values)
      : runtime_(runtime), file_(file), meta_(file.meta()), session_(session), ends_(ends), values_(values) {}

  Status Run() {
    const bool restores = !file_.checkpoint().empty();
    const bool misses = !restores && file_.form() == Form::kSavedModel && !meta_.saver.restore_op.empty();
    if (!restores && !misses && meta_.main_op.empty()) return Status();
    TENON_TRY(ReadAssets());
    TENON_TRY_ASSIGN(const GraphIndex graph, GraphIndex::Build(file_.graph_def()));
    TENON_TRY(ends_.Check());
    if (misses) TENON_TRY(CheckNothingIsGone(graph));
    if (restores) TENON_TRY(Restore(graph));
    return meta_.main_op.empty() ? Status() : RunNode(graph, session_, meta_.main_op, feeds_, "main op");
  }

 private:
  // A model that was copied without its values, which nothing else in it gives to its variables.
  Status CheckNothingIsGone(const GraphIndex& graph) const {
    const std::vector<RestoredVariable> variables = FindRestoredVariables(graph, meta_.saver.restore_op);
    if (variables.empty()) return Status();
    if (!meta_.main_op.empty()) {
      TENON_TRY_ASSIGN(const auto runs, graph.Reach({}, {meta_.main_op}));
      const auto is_restored = [&](const data::NodeView* node) {
        return std::any_of(variables.begin(), variables.end(),
                           [&](const RestoredVariable& each) { return each.variable == node->name; });
      };
      if (std::any_of(runs.begin(), runs.end(), is_restored)) return Status();
    }
    return Status(
        Code::kFailedPrecondition,
        "the values of the model's variables (" + variables.front().variable +
            (variables.size() > 1 ? " and " + std::to_string(variables.size() - 1) + " more" : std::string()) +
            ") are gone: there is no '" + data::JoinPath(file_.folder(), "variables/variables.index") +
            "'; copy the whole folder again");
  }

  Status ReadAssets() {
    const std::string folder = data::JoinPath(file_.folder(), "assets");
    for (const Asset& asset : meta_.assets) {
      const std::string path = data::JoinPath(folder, asset.file);
      if (file_.folder().empty() || !StaysInside(asset.file) || !LinksStayInside(file_.folder(), path)) {
        return Status(
            Code::kPermissionDenied,
            "the model's asset '" + asset.file + "' leads out of its folder; a model may bring files of its own alone");
      }
      if (!data::FileExists(path)) return Status(Code::kNotFound, "the model's asset '" + path + "' is missing");
      TENON_TRY(AddPath(asset.tensor, path, feeds_));
    }
    return Status();
  }

  static Status AddPath(const std::string& tensor, const std::string& path,
                        std::vector<std::pair<std::string, Tensor>>& feeds) {
    TENON_TRY_ASSIGN(Tensor value, Tensor::String(path));
    feeds.emplace_back(tensor, std::move(value));
    return Status();
  }

  Status Restore(const GraphIndex& graph) {
    const SaverNames& saver = meta_.saver;
    if (saver.restore_op.empty() || saver.filename_tensor.empty()) {
      return Status(Code::kInvalidArgument, "there is a checkpoint '" + file_.checkpoint() +
                                                "', but the graph has no saver that could restore it");
    }
    TENON_TRY(CheckCheckpointFiles());
    std::vector<std::pair<std::string, Tensor>> feeds = feeds_;
    TENON_TRY(AddPath(saver.filename_tensor, file_.checkpoint(), feeds));
    const std::string what = "restoring '" + file_.checkpoint() + "'";
    if (values_ == Values::kReadBySession) return RunNode(graph, session_, saver.restore_op, feeds, what);
    TENON_TRY_ASSIGN(const GraphPart part, CutGraph(graph, {saver.restore_op}, Devices::kDropped));
    TENON_TRY_ASSIGN(Session here, Session::Create(runtime_));
    TENON_TRY(ExtendWithin(here, part.graph_def, ends_));
    TENON_TRY(RunNode(graph, here, saver.restore_op, feeds, what));
    return SendValues(part, here).Annotate("sending the values of '" + file_.checkpoint() + "'");
  }

  // One by one: each is a message.
  Status SendValues(const GraphPart& part, Session& here) {
    TENON_TRY_ASSIGN(const std::vector<Tensor> values, ReadValues(runtime_, here, part.graph_def, part.variables));
    TENON_TRY_ASSIGN(host::Graph nodes, host::Graph::Import(runtime_, file_.graph_def()));
    std::vector<std::pair<host::Output, host::Operation>> assignments;
    for (const PartVariable& variable : part.variables) {
      TENON_TRY_ASSIGN(const host::Operation node, nodes.Find(variable.name));
      const host::Output value = nodes.Placeholder(variable.name + "/value_sent", variable.dtype, Shape::Unknown());
      const host::Attrs dtype = {{variable.is_reference ? "T" : "dtype", variable.dtype}};
      assignments.emplace_back(value, nodes.AddNode(variable.is_reference ? "Assign" : "AssignVariableOp",
                                                    {node, value}, dtype, variable.name + "/take_value_sent"));
    }
    TENON_TRY(session_.Extend(nodes));
    for (size_t i = 0; i < values.size(); ++i) {
      TENON_TRY(ends_.Check());
      TENON_TRY(
          session_.Run({{assignments[i].first, View(values[i])}}, {}, {assignments[i].second}, ends_.run).status());
    }
    return Status();
  }

  Status CheckCheckpointFiles() const {
    if (file_.folder().empty()) return Status();
    const std::string folder = data::FolderOf(file_.checkpoint());
    TENON_TRY_ASSIGN(const std::vector<std::string> names, data::ListFolder(folder));
    for (const std::string& name : names) {
      const std::string path = data::JoinPath(folder, name);
      if (!LinksStayInside(file_.folder(), path))
        return Status(Code::kPermissionDenied, "the model's file '" + path + "' leads out of its folder");
    }
    return Status();
  }

  // Feeds that the node does not need are left away: an asset's tensor may be nobody's.
  Status RunNode(const GraphIndex& graph, Session& session, const std::string& node,
                 const std::vector<std::pair<std::string, Tensor>>& given, const std::string& what) {
    std::vector<std::string> names;
    std::vector<host::Feed> feeds;
    for (const auto& [name, value] : given) {
      if (graph.FindNode(data::NodeOfInput(name)) == nullptr) continue;
      names.push_back(name);
      feeds.push_back({name, View(value)});
    }
    const std::string target(data::NodeOfInput(node));
    Status done = CheckFiles(runtime_, graph, names, names, {target});
    if (done.ok()) done = session.Run(feeds, {}, {target}, ends_.run).status();
    return done.Annotate(what);
  }

  const Runtime& runtime_;
  const ModelFile& file_;
  const MetaGraph& meta_;
  Session& session_;
  const LoadEnds& ends_;
  const Values values_;
  std::vector<std::pair<std::string, Tensor>> feeds_;  // paths of assets
};

std::string TypeOf(DType dtype, const Shape& shape) {
  return host::DTypeName(dtype) + (shape.has_rank() ? shape.ToString() : " of any shape");
}

// "x float[?,3], y int64[]".
std::string KeysOf(const std::vector<TensorInfo>& infos) {
  std::string keys;
  for (const TensorInfo& info : infos)
    keys += (keys.empty() ? "" : ", ") + info.key + " " + TypeOf(info.dtype, info.shape);
  return keys.empty() ? "none" : keys;
}

// The given tensors as feeds of a signature's inputs, with defaults where none is given: all of them, and no others.
Result<std::vector<host::Feed>> Feeds(const Signature& signature, const NamedViews& given,
                                      const NamedTensors& defaults) {
  const std::string where = "signature '" + signature.name + "'";
  std::vector<host::Feed> feeds;
  for (const auto& [key, value] : given) {
    const TensorInfo* info = signature.FindInput(key);
    if (info == nullptr)
      return Status(Code::kInvalidArgument, where + " has no input '" + key + "'; it has: " + KeysOf(signature.inputs));
    const auto same = [&](const auto& each) { return each.first == key; };
    if (std::count_if(given.begin(), given.end(), same) > 1)
      return Status(Code::kInvalidArgument, where + ": input '" + key + "' is given twice");
    const bool dense = info->kind == TensorInfo::Kind::kDense;
    if (value.dtype() != info->dtype || (dense && !Fits(info->shape, value.shape()))) {
      return Status(Code::kInvalidArgument, where + ": input '" + key + "' is " + TypeOf(info->dtype, info->shape) +
                                                ", found " + TypeOf(value.dtype(), value.shape()));
    }
    TENON_TRY_ASSIGN(std::string tensor, TensorOf(signature, *info));
    feeds.push_back({std::move(tensor), value});
  }
  for (const TensorInfo& info : signature.inputs) {
    if (std::any_of(given.begin(), given.end(), [&](const auto& each) { return each.first == info.key; })) continue;
    const auto own =
        std::find_if(defaults.begin(), defaults.end(), [&](const auto& each) { return each.first == info.key; });
    if (own != defaults.end()) {
      TENON_TRY_ASSIGN(std::string tensor, TensorOf(signature, info));
      feeds.push_back({std::move(tensor), View(own->second)});
      continue;
    }
    return Status(Code::kInvalidArgument,
                  where + ": input '" + info.key + "' is missing; the inputs are: " + KeysOf(signature.inputs));
  }
  return feeds;
}

}  // namespace

Status LoadEnds::Check() const {
  return stop != nullptr && stop->load() ? Status(Code::kCancelled, "the loading was ended") : Status();
}

Status LoadInto(const Runtime& runtime, const ModelFile& file, Session& session, const LoadEnds& ends, Values values) {
  TENON_TRY(ends.Check());
  TENON_TRY(ExtendWithin(session, file.graph_def(), ends));
  TENON_TRY(ends.Check());
  return Restore(runtime, file, session, ends, values);
}

Status Restore(const Runtime& runtime, const ModelFile& file, Session& session, const LoadEnds& ends, Values values) {
  return Loader(runtime, file, session, ends, values).Run();
}

Result<std::string> TensorOf(const Signature& signature, const TensorInfo& info) {
  if (info.kind == TensorInfo::Kind::kDense && !info.tensor.empty()) return info.tensor;
  std::string parts;
  for (const std::string& part : info.parts) parts += (parts.empty() ? "" : ", ") + ("'" + part + "'");
  const char* kind = info.kind == TensorInfo::Kind::kSparse
                         ? "is sparse; its values, indices and shape are the tensors "
                     : info.kind == TensorInfo::Kind::kComposite ? "has several parts, the tensors "
                                                                 : "names no tensor";
  return Status(Code::kUnimplemented, "signature '" + signature.name + "': '" + info.key + "' " + kind + parts +
                                          (parts.empty() ? "" : "; feed and fetch these by their own names"));
}

Result<const Signature*> FindSignature(const MetaGraph& meta, std::string_view name) {
  if (const Signature* found = meta.FindSignature(name)) return found;
  std::string names;
  for (const Signature& signature : meta.signatures)
    names += (names.empty() ? "" : ", ") + ("'" + signature.name + "'");
  return Status(Code::kNotFound,
                "the model has no signature '" + std::string(name) + "'; it has: " + (names.empty() ? "none" : names));
}

Result<Tensor> DefaultOf(const Runtime& runtime, const Signature& signature, const TensorInfo& input) {
  // Of a graph with that constant alone: the engine reads what the file has, with its checks.
  sdk::WireWriter type, value, node, graph;
  type.Varint(kAttrType, static_cast<uint64_t>(input.dtype));
  value.Bytes(kAttrTensor, input.default_value);
  node.Bytes(kNodeName, "default");
  node.Bytes(kNodeOp, "Const");
  for (const auto& [name, content] : {std::pair("dtype", &type), std::pair("value", &value)}) {
    sdk::WireWriter entry;
    entry.Bytes(kLoadedMapKey, name);
    entry.Bytes(kLoadedMapValue, content->bytes());
    node.Bytes(kLoadedNodeAttr, entry.bytes());
  }
  graph.Bytes(kSavedGraphNode, node.bytes());
  const auto read = [&]() -> Result<Tensor> {
    TENON_TRY_ASSIGN(const host::Graph made, host::Graph::Import(runtime, graph.bytes()));
    TENON_TRY_ASSIGN(Session session, Session::Create(runtime, made));
    TENON_TRY_ASSIGN(std::vector<Tensor> values, session.Run({}, {"default"}));
    return std::move(values[0]);
  };
  Result<Tensor> tensor = read();
  if (tensor.ok()) return tensor;
  return tensor.status().Annotate("signature '" + signature.name + "': the default of input '" + input.key + "'");
}

namespace {

Status CheckRunOf(const Runtime& runtime, const GraphIndex& graph, const std::vector<std::string>& feeds,
                  const std::vector<std::string>& chosen_feeds, const std::vector<std::string>& targets) {
  const Status found = CheckFiles(runtime, graph, feeds, chosen_feeds, targets);
  if (found.code() != Code::kPermissionDenied) return found;
  return Status(found.code(),
                found.message() + "; if you trust it, allow it files: `tenon run --allow-files`, or FileAccess::kAny");
}

}  // namespace

Status CheckRun(const Runtime& runtime, const ModelFile& file, const std::vector<std::string>& feeds,
                const std::vector<std::string>& chosen_feeds, const std::vector<std::string>& targets) {
  if (file.form() != Form::kSavedModel) return Status();
  TENON_TRY_ASSIGN(const GraphIndex graph, GraphIndex::Build(file.graph_def()));
  return CheckRunOf(runtime, graph, feeds, chosen_feeds, targets);
}

// Of all signatures, once: what a signature runs does not change.
void Model::NoteRefused(const Runtime& runtime) {
  const Result<GraphIndex> graph = GraphIndex::Build(file_.graph_def());
  if (!graph.ok()) return;
  for (const Signature& signature : meta().signatures) {
    std::vector<std::string> feeds, targets;
    for (const TensorInfo& input : signature.inputs) feeds.push_back(input.tensor);
    for (const TensorInfo& output : signature.outputs)
      if (output.kind == TensorInfo::Kind::kDense)
        targets.push_back(output.tensor);  // of others Run says that it cannot fetch them
    if (Status checked = CheckRunOf(runtime, *graph, feeds, {}, targets); !checked.ok())
      refused_.emplace(signature.name, std::move(checked));
  }
}

Result<Model> Model::Load(const Runtime& runtime, const ModelFile& file, const host::SessionOptions& options,
                          FileAccess access, const LoadEnds& ends) {
  TENON_TRY_ASSIGN(Session session, Session::Create(runtime, options));
  return LoadInto(runtime, file, std::move(session), access, ends,
                  options.master.empty() ? Values::kReadBySession : Values::kSent);
}

Result<Model> Model::LoadInto(const Runtime& runtime, const ModelFile& file, Session session, FileAccess access,
                              const LoadEnds& ends, Values values) {
  TENON_TRY(model::LoadInto(runtime, file, session, ends, values).Annotate("model '" + file.path() + "'"));
  Model model(file, std::move(session));
  if (access == FileAccess::kNone && file.form() == Form::kSavedModel) model.NoteRefused(runtime);
  for (const Signature& signature : model.meta().signatures)
    for (const TensorInfo& input : signature.inputs) {
      if (input.default_value.empty()) continue;
      TENON_TRY(ends.Check());
      TENON_TRY_ASSIGN(Tensor value, DefaultOf(runtime, signature, input));
      model.defaults_[signature.name].emplace_back(input.key, std::move(value));
    }
  return model;
}

Result<const Signature*> Model::FindSignature(std::string_view name) const {
  return model::FindSignature(meta(), name);
}

// Of a signature that may run: one that would touch files is an error.
Result<std::vector<host::Name>> Model::OutputsOf(const Signature& signature) const {
  std::vector<host::Name> names;
  for (const TensorInfo& output : signature.outputs) {
    TENON_TRY_ASSIGN(std::string tensor, TensorOf(signature, output));
    names.emplace_back(std::move(tensor));
  }
  const auto refused = refused_.find(signature.name);
  if (refused != refused_.end()) return Status(refused->second).Annotate("signature '" + signature.name + "'");
  return names;
}

Result<std::vector<Tensor>> Model::RunViews(std::string_view name, const NamedViews& inputs,
                                            const host::RunOptions& options) const {
  static const NamedTensors kNone;
  TENON_TRY_ASSIGN(const Signature* signature, FindSignature(name));
  const auto defaults = defaults_.find(name);
  TENON_TRY_ASSIGN(const std::vector<host::Feed> feeds,
                   Feeds(*signature, inputs, defaults == defaults_.end() ? kNone : defaults->second));
  TENON_TRY_ASSIGN(const std::vector<host::Name> fetches, OutputsOf(*signature));
  return session_.Run(feeds, fetches, {}, options);
}

Result<NamedTensors> Model::Run(std::string_view name, const NamedTensors& inputs,
                                const host::RunOptions& options) const {
  NamedViews views;
  for (const auto& [key, value] : inputs) views.emplace_back(key, value);
  TENON_TRY_ASSIGN(std::vector<Tensor> values, RunViews(name, views, options));
  TENON_TRY_ASSIGN(const Signature* signature, FindSignature(name));
  NamedTensors outputs;
  for (size_t i = 0; i < values.size(); ++i) outputs.emplace_back(signature->outputs[i].key, std::move(values[i]));
  return outputs;
}

Result<host::Callable> Model::Prepare(std::string_view name, const std::vector<std::string>& input_devices,
                                      const std::vector<std::string>& output_devices,
                                      const host::RunOptions& ends) const {
  TENON_TRY_ASSIGN(const Signature* signature, FindSignature(name));
  std::vector<host::Name> feeds;
  for (const TensorInfo& input : signature->inputs) {
    TENON_TRY_ASSIGN(std::string tensor, TensorOf(*signature, input));
    feeds.emplace_back(std::move(tensor));
  }
  TENON_TRY_ASSIGN(const std::vector<host::Name> fetches, OutputsOf(*signature));
  return session_.Prepare(feeds, fetches, {}, input_devices, output_devices, ends);
}

}  // namespace tenon::model
