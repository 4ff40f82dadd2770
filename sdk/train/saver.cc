// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/saver.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <utility>

#include "tenon/train/file.h"

namespace tenon::train {
namespace {

constexpr std::string_view kBaseName = "model.ckpt";
constexpr std::string_view kIndexEnding = ".index";

double Now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::string BaseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

}  // namespace

int64_t StepOfCheckpoint(std::string_view name) {
  const size_t dash = name.rfind('-');
  if (dash == std::string_view::npos) return -1;
  const std::string_view digits = name.substr(dash + 1);
  int64_t step = -1;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  return parsed.ec == std::errc() && parsed.ptr == digits.data() + digits.size() ? step : -1;
}

Saver::Saver(Model& model, std::string folder, int keep)
    : folder_(std::move(folder)), keep_(static_cast<size_t>(std::max(keep, 1))) {
  Graph& graph = model.graph();
  auto scope = graph.Scope("save");
  std::vector<std::string> names, slices;
  std::vector<DType> dtypes;
  std::vector<Output> save_inputs;
  for (const Variable& variable : model.variables()) {
    names.push_back(variable.name);
    slices.emplace_back();
    dtypes.push_back(variable.dtype);
  }
  Output prefix = graph.Placeholder("prefix", DType::kString, Shape());
  Output tensor_names = graph.StringConst(names, "tensor_names");
  Output shape_and_slices = graph.StringConst(slices, "shape_and_slices");
  save_inputs = {prefix, tensor_names, shape_and_slices};
  for (const Variable& variable : model.variables()) save_inputs.push_back(variable.value);
  Operation save = graph.AddNode("SaveV2", save_inputs, {{"dtypes", dtypes}});
  Operation restore = graph.AddNode("RestoreV2", {prefix, tensor_names, shape_and_slices}, {{"dtypes", dtypes}});
  std::vector<Operation> assigned;
  for (size_t i = 0; i < model.variables().size(); ++i) {
    const Variable& variable = model.variables()[i];
    assigned.push_back(graph.AddNode("AssignVariableOp", {variable.handle, restore.output(static_cast<int32_t>(i))},
                                     {{"dtype", variable.dtype}}));
  }
  Operation restore_all = Group(graph, assigned, "restore_all");
  prefix_feed_ = prefix.name();
  save_target_ = save.name();
  restore_target_ = restore_all.name();
}

std::string Saver::PathOf(const std::string& name) const {
  return !name.empty() && name[0] == '/' ? name : JoinPath(folder_, name);
}

// What the folder says that it holds; without a `checkpoint` file, every index file in it, by step.
Result<CheckpointState> Saver::Candidates() const {
  Result<CheckpointState> state = CheckpointState::Read(folder_);
  if (state.ok() || state.status().code() != Code::kNotFound) return state;
  CheckpointState found;
  Result<std::vector<std::string>> names = ListFolder(folder_);
  if (!names.ok()) return found;  // no folder: nothing to restore
  for (const std::string& name : *names) {
    if (!name.starts_with(kBaseName) || !name.ends_with(kIndexEnding)) continue;
    const std::string prefix = name.substr(0, name.size() - kIndexEnding.size());
    if (StepOfCheckpoint(prefix) >= 0) found.paths.push_back(prefix);
  }
  std::sort(found.paths.begin(), found.paths.end(),
            [](const std::string& a, const std::string& b) { return StepOfCheckpoint(a) < StepOfCheckpoint(b); });
  return found;
}

Status Saver::Restore(const Session& session, const std::string& prefix) const {
  TENON_TRY_ASSIGN(Tensor text, Tensor::String(prefix));
  return session.RunTargets({restore_target_}, {{prefix_feed_, text}});
}

Result<Restored> Saver::RestoreNewest(const Session& session) {
  Restored restored;
  TENON_TRY_ASSIGN(CheckpointState state, Candidates());
  const size_t before = state.paths.size();
  if (before == 0) return restored;
  Code code = Code::kDataLoss;
  while (!state.paths.empty()) {
    const std::string name = state.paths.back();
    Status read = Restore(session, PathOf(name));
    if (read.ok()) {
      restored.prefix = PathOf(name);
      restored.step = StepOfCheckpoint(name);
      break;
    }
    code = read.code();
    restored.warnings.push_back("checkpoint '" + PathOf(name) + "' cannot be read: " + read.message());
    state.paths.pop_back();
    if (!state.timestamps.empty()) state.timestamps.pop_back();
  }
  if (state.paths.empty()) {
    std::string text = "none of the " + std::to_string(before) + " checkpoints in '" + folder_ + "' can be read";
    for (const std::string& warning : restored.warnings) text += "; " + warning;
    return Status(code, text + ". Move the folder away, or train without resuming, to begin anew");
  }
  if (state.paths.size() != before) TENON_TRY(state.Write(folder_));
  state_ = std::move(state);
  return restored;
}

Status Saver::Clear() {
  state_ = CheckpointState();
  const Result<CheckpointState> old = Candidates();
  if (!FileExists(folder_)) return Status();
  TENON_TRY(state_.Write(folder_));
  if (!old.ok()) return Status();  // a damaged `checkpoint` file named nothing that could be removed
  for (const std::string& name : old->paths) RemoveCheckpoint(name);
  return Status();
}

Status Saver::FlushCheckpoint(const std::string& name) const {
  TENON_TRY_ASSIGN(const std::vector<std::string> files, ListFolder(folder_));
  for (const std::string& file : files) {
    if (file.starts_with(name + ".")) TENON_TRY(FlushToDisk(JoinPath(folder_, file)));
  }
  return FlushToDisk(folder_);
}

void Saver::RemoveCheckpoint(const std::string& name) const {
  const std::string path = PathOf(name);
  const Result<std::vector<std::string>> files = ListFolder(FolderOf(path));
  if (!files.ok()) return;  // what cannot be removed stays; nothing names it any more
  for (const std::string& file : *files) {
    if (file == BaseName(path) + std::string(kIndexEnding) || file.starts_with(BaseName(path) + ".data-")) {
      unlink(JoinPath(FolderOf(path), file).c_str());
    }
  }
}

Result<std::string> Saver::Save(const Session& session, int64_t step) {
  const std::string name = std::string(kBaseName) + "-" + std::to_string(step);
  if (!state_.paths.empty() && BaseName(state_.paths.back()) == name) return PathOf(state_.paths.back());
  TENON_TRY(MakeFolder(folder_));
  TENON_TRY_ASSIGN(Tensor prefix, Tensor::String(JoinPath(folder_, name)));
  Status saved = session.RunTargets({save_target_}, {{prefix_feed_, prefix}});
  if (!saved.ok()) return saved.Annotate("checkpoint '" + JoinPath(folder_, name) + "' cannot be written");
  TENON_TRY(FlushCheckpoint(name));

  CheckpointState next = state_;
  if (next.timestamps.size() != next.paths.size()) next.timestamps.assign(next.paths.size(), Now());
  next.paths.push_back(name);
  next.timestamps.push_back(Now());
  std::vector<std::string> dropped;
  while (next.paths.size() > keep_) {
    dropped.push_back(next.paths.front());
    next.paths.erase(next.paths.begin());
    next.timestamps.erase(next.timestamps.begin());
  }
  TENON_TRY(next.Write(folder_));
  state_ = std::move(next);
  for (const std::string& old : dropped) RemoveCheckpoint(old);
  return JoinPath(folder_, name);
}

}  // namespace tenon::train
