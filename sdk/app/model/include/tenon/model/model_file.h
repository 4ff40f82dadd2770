// SPDX-License-Identifier: Apache-2.0
// ModelFile: a graph as it stands in a file or a folder, whatever form it has.
//
// Forms: a GraphDef, a MetaGraphDef (`.meta`), and a SavedModel (a folder, or its saved_model.pb); each binary or text.
// What a file is is told by its name where that says it (.pbtxt, .meta, a folder) and else by its bytes.
//
// Binary files are mapped, and the graph is a view of the mapping: nothing of it is copied, and weights that stand
// beside the graph are not touched. Objects are immutable and share what they hold when they are copied; views live as
// long as any of them.
#ifndef TENON_MODEL_MODEL_FILE_H_
#define TENON_MODEL_MODEL_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/model/base.h"
#include "tenon/model/meta_graph.h"

namespace tenon::model {

enum class Form { kGraphDef, kMetaGraph, kSavedModel };

// "GraphDef", "MetaGraph", "SavedModel".
std::string_view FormName(Form form);

struct OpenOptions {
  // Of a SavedModel: the graph that has these tags and no others.
  std::vector<std::string> tags = {"serve"};
  uint64_t most_bytes = UINT64_MAX;  // of the file; a larger one is RESOURCE_EXHAUSTED before it is read
};

class ModelFile {
 public:
  static Result<ModelFile> Open(const std::string& path, const OpenOptions& options = {});

  const std::string& path() const { return path_; }
  Form form() const { return form_; }
  bool is_text() const { return text_; }
  // With the graph; of a GraphDef nothing but the graph.
  const MetaGraph& meta() const { return meta_; }
  std::string_view graph_def() const { return meta_.graph_def; }
  // Where the values of the variables stand: a checkpoint's prefix, "<folder>/variables/variables", or that of a
  // `.meta` file beside which a checkpoint of its name stands. "": nowhere.
  const std::string& checkpoint() const { return checkpoint_; }
  // Of a SavedModel; "" of others.
  const std::string& folder() const { return folder_; }
  // What was passed over, one sentence each.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Bytes;  // a mapped file, or what a text became
  enum class Content { kGraphDef, kMetaGraph, kSavedModel };

  Status OpenFolder(const OpenOptions& options);
  Status OpenFile(const std::string& file, const OpenOptions& options);
  Status Read(const std::string& file, uint64_t most_bytes, Content* content);
  Status Understand(Content content, const OpenOptions& options);
  Status Choose(const OpenOptions& options);
  void FindCheckpoint();

  std::string path_, folder_, checkpoint_;
  Form form_ = Form::kGraphDef;
  bool text_ = false;
  std::shared_ptr<const Bytes> bytes_;
  std::string_view content_;
  MetaGraph meta_;
  std::vector<std::string> notes_;
};

}  // namespace tenon::model

#endif  // TENON_MODEL_MODEL_FILE_H_
