// SPDX-License-Identifier: Apache-2.0
#include "tenon/model/model_file.h"

#include <algorithm>
#include <utility>

#include "sdk/app/model/foreign_file.h"
#include "tenon/data/file.h"
#include "tenon/data/graph_def.h"
#include "tenon/model/text_format.h"
#include "tenon/bytes/wire.h"

namespace tenon::model {
namespace {

using data::FileExists;
using data::JoinPath;
using sdk::WireReader;

constexpr std::string_view kBinaryModel = "saved_model.pb", kTextModel = "saved_model.pbtxt";
constexpr uint32_t kSavedModelVersion = 1, kSavedModelMetaGraph = 2;

bool EndsWithAny(std::string_view path, std::initializer_list<std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(), [&](std::string_view ending) { return path.ends_with(ending); });
}

std::string TagSet(const std::vector<std::string>& tags) {
  std::string text = "{";
  for (const std::string& tag : tags) text += (text.size() == 1 ? "" : ", ") + tag;
  return text + "}";
}

// A SavedModel begins with its version, a number; the other two begin with messages.
bool LooksLikeSavedModel(std::string_view bytes) {
  WireReader reader(bytes);
  bool graphs = false;
  while (reader.Next()) {
    if (reader.field() == kSavedModelVersion ? !reader.is_varint() : !reader.is_bytes()) return false;
    graphs = graphs || reader.field() == kSavedModelMetaGraph;
  }
  return reader.ok() && graphs;
}

// Whether its second field is a graph that has nodes: in a GraphDef that field is the function library.
bool LooksLikeMetaGraph(std::string_view bytes) {
  if (data::ParseGraphDef(bytes).ok()) return false;
  const Result<MetaGraph> meta = ParseMetaGraph(bytes);
  if (!meta.ok() || meta->graph_def.empty()) return false;
  const Result<data::GraphView> graph = data::ParseGraphDef(meta->graph_def);
  return graph.ok() && !graph->nodes.empty();
}

}  // namespace

struct ModelFile::Bytes {
  explicit Bytes(data::MappedFile mapped) : file(std::move(mapped)) {}
  data::MappedFile file;
  std::string converted;
};

std::string_view FormName(Form form) {
  switch (form) {
    case Form::kGraphDef:
      return "GraphDef";
    case Form::kMetaGraph:
      return "MetaGraph";
    case Form::kSavedModel:
      return "SavedModel";
  }
  return "";
}

Result<ModelFile> ModelFile::Open(const std::string& path, const OpenOptions& options) {
  ModelFile file;
  file.path_ = path;
  const bool folder = data::ListFolder(path).ok();
  Status opened = folder ? file.OpenFolder(options) : file.OpenFile(path, options);
  if (!opened.ok()) return opened;
  return file;
}

Status ModelFile::OpenFolder(const OpenOptions& options) {
  for (std::string_view name : {kBinaryModel, kTextModel}) {
    const std::string file = JoinPath(path_, name);
    if (!FileExists(file)) continue;
    TENON_TRY(OpenFile(file, options));
    return form_ == Form::kSavedModel
               ? Status()
               : Status(Code::kInvalidArgument, "'" + file + "': the bytes are no SavedModel, or damaged");
  }
  return Status(Code::kNotFound, "'" + path_ + "' is a folder without " + std::string(kBinaryModel) + " or " +
                                     std::string(kTextModel) + "; name a SavedModel's folder, or a file");
}

Status ModelFile::OpenFile(const std::string& file, const OpenOptions& options) {
  Content content = Content::kGraphDef;
  Status understood = Read(file, options.most_bytes, &content);
  if (understood.ok() && content == Content::kSavedModel) {
    form_ = Form::kSavedModel;
    folder_ = data::FolderOf(file);
  }
  if (understood.ok()) understood = Understand(content, options);
  if (!understood.ok())
    return understood.code() == Code::kNotFound && bytes_ == nullptr ? understood
                                                                     : understood.Annotate("'" + file + "'");
  FindCheckpoint();
  return Status();
}

Status ModelFile::Read(const std::string& file, uint64_t most_bytes, Content* content) {
  if (const std::string_view kind = NamedKind(file); !kind.empty())
    return Status(Code::kInvalidArgument, "it is " + std::string(kind));
  TENON_TRY_ASSIGN(data::MappedFile mapped, data::MappedFile::Open(file, data::ReadLimit(most_bytes)));
  if (const std::string_view kind = ForeignKind(mapped.bytes()); !kind.empty())
    return Status(Code::kInvalidArgument, "it is " + std::string(kind));
  auto bytes = std::make_shared<Bytes>(std::move(mapped));
  bytes_ = bytes;
  content_ = bytes->file.bytes();
  text_ = EndsWithAny(file, {".pbtxt", ".textproto", ".prototxt"}) || LooksLikeText(content_);
  if (!text_) {
    if (LooksLikeSavedModel(content_)) *content = Content::kSavedModel;
    else if (file.ends_with(".meta") || LooksLikeMetaGraph(content_)) *content = Content::kMetaGraph;
    return Status();
  }
  const std::string_view first = FirstField(content_);
  std::string_view message = "GraphDef";
  if (first == "saved_model_schema_version" || first == "meta_graphs") {
    *content = Content::kSavedModel;
    message = "SavedModel";
  } else if (first == "graph_def" || first.starts_with("meta_info") || first.ends_with("_def")) {
    *content = Content::kMetaGraph;
    message = "MetaGraphDef";
  }
  TENON_TRY_ASSIGN(WireMessage converted, TextToWire(content_, message));
  bytes->converted = std::move(converted.bytes);
  content_ = bytes->converted;
  notes_ = std::move(converted.notes);
  return Status();
}

Status ModelFile::Understand(Content content, const OpenOptions& options) {
  switch (content) {
    case Content::kGraphDef:
      meta_.graph_def = content_;
      return Status();
    case Content::kMetaGraph: {
      form_ = Form::kMetaGraph;
      TENON_TRY_ASSIGN(meta_, ParseMetaGraph(content_));
      return Status();
    }
    case Content::kSavedModel:
      return Choose(options);
  }
  return Status();
}

Status ModelFile::Choose(const OpenOptions& options) {
  std::vector<std::string> wanted = options.tags;
  std::sort(wanted.begin(), wanted.end());
  std::string found;
  WireReader reader(content_);
  while (reader.Next()) {
    if (reader.field() != kSavedModelMetaGraph) continue;
    TENON_TRY_ASSIGN(MetaGraph meta, ParseMetaGraph(reader.bytes()));
    std::vector<std::string> tags = meta.tags;
    std::sort(tags.begin(), tags.end());
    if (tags == wanted) {
      meta_ = std::move(meta);
      return Status();
    }
    found += (found.empty() ? "" : ", ") + TagSet(tags);
  }
  return Status(Code::kNotFound, "the model has no graph with the tags " + TagSet(wanted) +
                                     "; it has: " + (found.empty() ? "none" : found));
}

void ModelFile::FindCheckpoint() {
  std::string prefix;
  if (form_ == Form::kSavedModel) prefix = JoinPath(JoinPath(folder_, "variables"), "variables");
  else if (form_ == Form::kMetaGraph && path_.ends_with(".meta")) prefix = path_.substr(0, path_.size() - 5);
  if (!prefix.empty() && FileExists(prefix + ".index")) checkpoint_ = std::move(prefix);
}

}  // namespace tenon::model
