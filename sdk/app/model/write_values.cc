// SPDX-License-Identifier: Apache-2.0
#include "tenon/model/write_values.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "sdk/app/model/restored_variables.h"
#include "sdk/app/model/variable_values.h"
#include "tenon/data/file.h"
#include "tenon/model/checkpoint.h"
#include "tenon/model/graph_index.h"
#include "tenon/model/graph_part.h"
#include "tenon/bytes/wire.h"

namespace tenon::model {
namespace {

using data::JoinPath;
using sdk::WireReader;
using sdk::WireWriter;

// Field numbers of tensorflow.MetaGraphDef and GraphDef.
constexpr uint32_t kWrittenMetaInfo = 1, kWrittenMetaGraphDef = 2, kWrittenMetaSaver = 3, kWrittenGraphNode = 1;
constexpr int kMostFolders = 16;  // one in the other, of assets

bool SameFolder(const std::string& one, const std::string& other) {
  if (one.empty()) return false;
  std::error_code error;
  return one == other || std::filesystem::equivalent(one, other, error);
}

Status CopyFile(const std::string& from, const std::string& to) {
  TENON_TRY_ASSIGN(const data::MappedFile file, data::MappedFile::Open(from));
  return data::ReplaceFile(to, {file.bytes()});
}

Status CopyFolder(const std::string& from, const std::string& to, int depth = 0) {
  if (depth > kMostFolders)
    return Status(Code::kInvalidArgument, "'" + from + "': more folders in each other than a model has");
  const Result<std::vector<std::string>> names = data::ListFolder(from);
  if (!names.ok()) return Status();  // a model need not have it
  TENON_TRY(data::MakeFolder(to));
  for (const std::string& name : *names) {
    const std::string path = JoinPath(from, name);
    if (data::ListFolder(path).ok()) TENON_TRY(CopyFolder(path, JoinPath(to, name), depth + 1));
    else
      TENON_TRY(CopyFile(path, JoinPath(to, name)));
  }
  return Status();
}

class Writer {
 public:
  Writer(const Runtime& runtime, Session& session, const ModelFile& file, const std::vector<std::string>& variables,
         const std::string& folder)
      : runtime_(runtime), session_(session), file_(file), meta_(file.meta()), variables_(variables), folder_(folder) {}

  Result<WrittenValues> Run() {
    if (SameFolder(file_.folder(), folder_) ||
        (file_.form() == Form::kMetaGraph && SameFolder(JoinPath(folder_, "model.meta"), file_.path())))
      return Status(Code::kInvalidArgument, "it is the model's own folder; name another one");
    TENON_TRY_ASSIGN(GraphIndex index, GraphIndex::Build(file_.graph_def()));
    index_.emplace(std::move(index));
    restored_ = FindRestoredVariables(*index_, meta_.saver.restore_op);
    TENON_TRY(Collect());
    TENON_TRY(data::MakeFolder(folder_));
    TENON_TRY(file_.form() == Form::kSavedModel ? WriteSavedModel() : WriteMetaGraph());
    return std::move(written_);
  }

 private:
  // What the new checkpoint holds.
  Status Collect() {
    if (restored_.empty() && file_.form() != Form::kSavedModel) {
      for (const std::string& name : variables_) restored_.push_back({name, name, ""});
      own_saver_ = true;
    }
    std::vector<std::string> names;
    for (const RestoredVariable& each : restored_) names.push_back(each.variable);
    TENON_TRY_ASSIGN(const GraphPart part, CutGraph(*index_, names, Devices::kDropped));
    part_ = part;
    TENON_TRY_ASSIGN(const std::vector<Tensor> values,
                     ReadValues(runtime_, session_, part_.graph_def, part_.variables));
    std::map<std::string, Tensor> value_of;
    for (size_t i = 0; i < values.size(); ++i) value_of[part_.variables[i].name] = values[i];
    std::set<std::string> known;
    for (const RestoredVariable& each : restored_) {
      if (value_of.contains(each.variable)) entries_.push_back({each.key, each.slice, value_of[each.variable]});
      known.insert(each.key);
    }
    written_.variables = static_cast<int64_t>(entries_.size());
    if (own_saver_ || file_.checkpoint().empty()) return Status();
    TENON_TRY_ASSIGN(const CheckpointIndex old, CheckpointIndex::Read(file_.checkpoint()));
    TENON_TRY(UpdateCopies(old, value_of));
    return KeepOthers(old, known);
  }

  // Keras saves some variables twice: what functions read in the graph, and a copy, which is what they read in
  // TensorFlow's objects. The graph says of what it is a copy: its initialiser reads that. A copy that was one in the
  // old checkpoint, and has not been changed since, is one in the new one.
  Status UpdateCopies(const CheckpointIndex& old, const std::map<std::string, Tensor>& value_of) {
    for (size_t i = 0; i < restored_.size(); ++i) {
      const RestoredVariable* original = OriginalOf(restored_[i]);
      if (original == nullptr || !value_of.contains(restored_[i].variable) || !value_of.contains(original->variable))
        continue;
      const CheckpointTensor *copy = old.Find(restored_[i].key), *first = old.Find(original->key);
      if (copy == nullptr || first == nullptr) continue;
      TENON_TRY_ASSIGN(const Tensor copy_then, ReadCheckpointTensor(runtime_, old, *copy));
      TENON_TRY_ASSIGN(const Tensor first_then, ReadCheckpointTensor(runtime_, old, *first));
      if (!Same(copy_then, first_then) || !Same(copy_then, value_of.at(restored_[i].variable))) continue;
      for (BundleEntry& entry : entries_)
        if (entry.name == restored_[i].key) entry.value = value_of.at(original->variable);
    }
    return Status();
  }
  static bool Same(const Tensor& a, const Tensor& b) {
    return a.dtype() == b.dtype() && a.shape() == b.shape() && a.dtype() != DType::kString &&
           std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin(), b.bytes().end());
  }
  const RestoredVariable* OriginalOf(const RestoredVariable& copy) const {
    const data::NodeView* assign = index_->FindNode(copy.variable + "/Assign");
    if (assign == nullptr || assign->inputs.size() < 2 || !copy.slice.empty()) return nullptr;
    const data::NodeView* read = index_->FindNode(data::NodeOfInput(assign->inputs[1]));
    if (read == nullptr || read->op != "ReadVariableOp" || read->inputs.empty()) return nullptr;
    const std::string_view variable = data::NodeOfInput(read->inputs[0]);
    const auto found = std::find_if(restored_.begin(), restored_.end(), [&](const RestoredVariable& each) {
      return each.variable == variable && each.slice.empty();
    });
    return found == restored_.end() ? nullptr : &*found;
  }

  // Tensors of the old checkpoint that are no variables': tables, and how TensorFlow's objects hang together.
  Status KeepOthers(const CheckpointIndex& old, const std::set<std::string>& known) {
    std::string names;
    for (const CheckpointTensor& tensor : old.tensors) {
      if (known.contains(tensor.name)) continue;
      TENON_TRY_ASSIGN(Tensor value, ReadCheckpointTensor(runtime_, old, tensor));
      entries_.push_back({tensor.name, "", std::move(value)});
      const bool structure = tensor.name == "_CHECKPOINTABLE_OBJECT_GRAPH" || tensor.name.starts_with("save_counter");
      if (!structure) names += (names.empty() ? "'" : ", '") + tensor.name + "'";
    }
    if (!names.empty())
      written_.notes.push_back("these are no variables of the graph, and stay as they were: " + names);
    return Status();
  }

  // saved_model.pb comes last, so a folder that has it is whole. The fingerprint is of other values, and stays behind.
  Status WriteSavedModel() {
    std::string name = "saved_model.pb";
    if (!data::FileExists(JoinPath(file_.folder(), name))) name += "txt";
    for (const char* other : {"saved_model.pb", "saved_model.pbtxt", "fingerprint.pb"}) {
      if (data::FileExists(JoinPath(folder_, other))) TENON_TRY(host::RemoveFile(JoinPath(folder_, other)));
    }
    for (const char* assets : {"assets", "assets.extra"})
      TENON_TRY(CopyFolder(JoinPath(file_.folder(), assets), JoinPath(folder_, assets)));
    if (!entries_.empty()) {
      TENON_TRY(data::MakeFolder(JoinPath(folder_, "variables")));
      TENON_TRY(WriteBundle(runtime_, entries_, JoinPath(JoinPath(folder_, "variables"), "variables")));
    }
    written_.path = folder_;
    return CopyFile(JoinPath(file_.folder(), name), JoinPath(folder_, name));
  }

  Status WriteMetaGraph() {
    written_.path = JoinPath(folder_, "model.meta");
    if (data::FileExists(written_.path)) TENON_TRY(host::RemoveFile(written_.path));
    if (!entries_.empty()) TENON_TRY(WriteBundle(runtime_, entries_, JoinPath(folder_, "model")));
    if (!own_saver_) return data::ReplaceFile(written_.path, {meta_.bytes});
    WireWriter info, meta;
    std::string others;
    // A MetaGraph is told from other files by its first field.
    if (sdk::FindBytes(meta_.bytes, kWrittenMetaInfo).empty()) info.Bytes(kWrittenMetaInfo, "");
    WireReader reader(meta_.bytes);
    while (reader.Next()) {
      if (reader.field() != kWrittenMetaGraphDef && reader.field() != kWrittenMetaSaver) others += reader.whole();
    }
    TENON_TRY_ASSIGN(const auto graph, WithSaver());
    meta.Bytes(kWrittenMetaGraphDef, graph.first);
    if (!graph.second.restore_op.empty()) meta.Bytes(kWrittenMetaSaver, SaverDefBytes(graph.second));
    return data::ReplaceFile(written_.path, {info.bytes(), others, meta.bytes()});
  }

  // The graph with a saver of ours: its own bytes, behind those of the nodes that are added.
  Result<std::pair<std::string, SaverNames>> WithSaver() {
    if (part_.variables.empty()) return std::pair(std::string(file_.graph_def()), SaverNames());
    TENON_TRY_ASSIGN(host::Graph graph, host::Graph::Import(runtime_, part_.graph_def));
    std::string scope = "saver";
    const auto taken = [&] {
      return std::any_of(index_->graph().nodes.begin(), index_->graph().nodes.end(), [&](const data::NodeView& node) {
        return node.name == scope || node.name.starts_with(scope + "/");
      });
    };
    for (int i = 1; taken(); ++i) scope = "saver_" + std::to_string(i);
    const AddedSaver added = AddSaver(graph, part_.variables, scope);
    TENON_TRY_ASSIGN(const std::string all, graph.Export());
    TENON_TRY_ASSIGN(const data::GraphView view, data::ParseGraphDef(all));
    WireWriter nodes;
    for (const data::NodeView& node : view.nodes) {
      if (index_->FindNode(node.name) == nullptr) nodes.Bytes(kWrittenGraphNode, node.bytes);
    }
    return std::pair(nodes.bytes() + std::string(file_.graph_def()), added.names);
  }

  const Runtime& runtime_;
  Session& session_;
  const ModelFile& file_;
  const MetaGraph& meta_;
  const std::vector<std::string>& variables_;
  const std::string& folder_;
  std::optional<GraphIndex> index_;
  std::vector<RestoredVariable> restored_;
  bool own_saver_ = false;
  GraphPart part_;
  std::vector<BundleEntry> entries_;
  WrittenValues written_;
};

}  // namespace

Result<WrittenValues> WriteWithValues(const Runtime& runtime, Session& session, const ModelFile& file,
                                      const std::vector<std::string>& variables, const std::string& folder) {
  Result<WrittenValues> written = Writer(runtime, session, file, variables, folder).Run();
  if (written.ok()) return written;
  return written.status().Annotate("writing the model '" + folder + "'");
}

}  // namespace tenon::model
