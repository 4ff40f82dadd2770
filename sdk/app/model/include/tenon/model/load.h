// SPDX-License-Identifier: Apache-2.0
// Loading: a model's graph in a session, with the values of its variables, its assets, and its main op run.
//
//   TENON_TRY_ASSIGN(ModelFile file, ModelFile::Open("folder"));
//   TENON_TRY_ASSIGN(Model model, Model::Load(runtime, file));
//   TENON_TRY_ASSIGN(NamedTensors outputs, model.Run("serving_default", {{"x", x}}));
//
// Rules. Nothing but the model's own folder is read: names of assets that lead elsewhere are refused (".." , whole
// paths, schemes, links), and so is a graph that would touch other files while it is restored and initialised
// (file_guard.h). No library is loaded for a model. Nodes and functions that nothing reaches may have ops that nobody
// has. What runs afterwards touches no file at all, unless the caller lets it (FileAccess): the values that a signature
// gets are data, and no paths. What a caller runs in the session itself is its own choice. Weights go from the
// checkpoint into the variables, once; the graph's bytes may be dropped when loading is done.
#ifndef TENON_MODEL_LOAD_H_
#define TENON_MODEL_LOAD_H_

#include <atomic>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/model/base.h"
#include "tenon/model/model_file.h"

namespace tenon::model {

// What ends a loading before it is done.
struct LoadEnds {
  host::RunOptions run = {};                  // of the steps that restore and run the main op, and of adding the graph
  const std::atomic<bool>* stop = nullptr;    // set by whoever wants it no longer, from any thread: looked at between
                                              // the loading's parts, of which adding the graph is one
  Status Check() const;                       // CANCELLED once it is set
};

// Who reads the values of a model's variables: the session's own restore op, or this process, which then sends them, so
// that tasks elsewhere (SessionOptions::master) need not see its files. For a moment this process holds them once more.
enum class Values { kReadBySession, kSent };

// Adds the graph to a session, restores the variables where the model has a checkpoint, and runs its main op where it
// has one. After a failure the session holds what was added.
Status LoadInto(const Runtime& runtime, const ModelFile& file, Session& session, const LoadEnds& ends = {},
                Values values = Values::kReadBySession);

// The same in a session that has the graph already.
Status Restore(const Runtime& runtime, const ModelFile& file, Session& session, const LoadEnds& ends = {},
               Values values = Values::kReadBySession);

// What a model's graph may do with files when it is run.
enum class FileAccess {
  kNone,  // PERMISSION_DENIED names the node that would touch one
  kAny,   // of a model that is trusted
};

// Whether nodes of a SavedModel may run, once it is loaded. feeds: names of the tensors that are fed; chosen_feeds:
// those of them whose values may be paths, because the caller named them as tensors of the graph and not as a
// signature's inputs. Graphs that are no SavedModel are their owner's, and run.
Status CheckRun(const Runtime& runtime, const ModelFile& file, const std::vector<std::string>& feeds,
                const std::vector<std::string>& chosen_feeds, const std::vector<std::string>& targets);

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
using NamedViews = std::vector<std::pair<std::string, View>>;

// A signature's tensor in the graph, by which a session knows it. Sparse and composite ones have no single tensor: an
// error that names their parts.
Result<std::string> TensorOf(const Signature& signature, const TensorInfo& info);

// What the file gives where a caller gives no value for an input that has a default_value. INVALID_ARGUMENT: it is
// damaged, or of another type.
Result<Tensor> DefaultOf(const Runtime& runtime, const Signature& signature, const TensorInfo& input);

// A loaded model: what its author named can be called by these names. Any thread may run it, several at once.
class Model {
 public:
  // Where the options name a master, the values are sent.
  static Result<Model> Load(const Runtime& runtime, const ModelFile& file, const host::SessionOptions& options = {},
                            FileAccess access = FileAccess::kNone, const LoadEnds& ends = {});
  // Into a session that has no nodes yet.
  static Result<Model> LoadInto(const Runtime& runtime, const ModelFile& file, Session session,
                                FileAccess access = FileAccess::kNone, const LoadEnds& ends = {},
                                Values values = Values::kReadBySession);

  const Session& session() const { return session_; }
  Session& session() { return session_; }
  const ModelFile& file() const { return file_; }
  const MetaGraph& meta() const { return file_.meta(); }
  // NOT_FOUND lists those that there are.
  Result<const Signature*> FindSignature(std::string_view name) const;
  // Every output of a signature. Inputs: all of it, by key, but for those that have a default; INVALID_ARGUMENT names
  // what is missing, unknown or of another type; PERMISSION_DENIED what would touch files.
  Result<NamedTensors> Run(std::string_view signature, const NamedTensors& inputs,
                           const host::RunOptions& options = {}) const;
  // The same from the caller's memory; the outputs in the signature's order.
  Result<std::vector<Tensor>> RunViews(std::string_view signature, const NamedViews& inputs,
                                       const host::RunOptions& options = {}) const;
  // A signature prepared once, for many calls: takes every input, in the signature's order, and gives every output.
  // What follows is Session::Prepare's.
  Result<host::Callable> Prepare(std::string_view signature, const std::vector<std::string>& input_devices = {},
                                 const std::vector<std::string>& output_devices = {},
                                 const host::RunOptions& ends = {}) const;

 private:
  Model(ModelFile file, Session session) : file_(std::move(file)), session_(std::move(session)) {}
  ModelFile file_;
  Session session_;
  void NoteRefused(const Runtime& runtime);
  Result<std::vector<host::Name>> OutputsOf(const Signature& signature) const;

  std::map<std::string, NamedTensors, std::less<>> defaults_;  // by signature
  std::map<std::string, Status, std::less<>> refused_;         // signatures that would touch files
};

// NOT_FOUND lists the signatures that there are.
Result<const Signature*> FindSignature(const MetaGraph& meta, std::string_view name);

}  // namespace tenon::model

#endif  // TENON_MODEL_LOAD_H_
