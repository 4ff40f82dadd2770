// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/saver.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "tenon/data/file.h"

namespace tenon::train {
namespace {

constexpr double kHour = 3600;

double SystemTime() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string NameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

SaverOptions Keeping(int keep) {
  SaverOptions options;
  options.keep = keep;
  return options;
}

}  // namespace

Saver::Saver(Model& model, std::string folder, SaverOptions options)
    : folder_(std::move(folder)),
      options_(std::move(options)),
      nodes_(model, options_.variables, options_.step_variable, options_.beside) {
  options_.keep = std::max(options_.keep, 1);
  options_.keep_best = std::max(options_.keep_best, 0);
  if (!options_.clock) options_.clock = SystemTime;
}

Saver::Saver(Model& model, std::string folder, int keep) : Saver(model, std::move(folder), Keeping(keep)) {}

std::string Saver::PathOf(const std::string& name) const { return CheckpointPath(folder_, name); }

Status Saver::Claim() {
  if (lock_) return Status();
  TENON_TRY(data::MakeFolder(folder_));
  TENON_TRY_ASSIGN(lock_, FolderLock::Take(folder_));
  return Status();
}

Status Saver::IfFree(const std::function<Status()>& change) {
  if (lock_) return change();
  if (!data::FileExists(folder_)) return Status();
  const Result<FolderLock> lock = FolderLock::Take(folder_);
  return lock.ok() ? change() : Status();
}

// ---- Restoring ----

// What the folder says that it holds; without a `checkpoint` file, every index file in it, by step.
Result<CheckpointState> Saver::Candidates() const {
  Result<CheckpointState> state = CheckpointState::Read(folder_);
  if (state.ok() || state.status().code() != Code::kNotFound) return state;
  CheckpointState found;
  found.paths = FindCheckpoints(folder_);
  return found;
}

Status Saver::RestoreFrom(const Session& session, const std::string& prefix) const {
  return nodes_.Restore(session, prefix).status();
}

Status Saver::RestoreOne(const Session& session, const std::string& prefix) const {
  TENON_TRY_ASSIGN(const std::optional<int64_t> step, nodes_.Restore(session, prefix));
  const int64_t claimed = StepOfCheckpoint(prefix);
  if (!step || *step == claimed) return Status();
  return Status(Code::kDataLoss, "it holds '" + options_.step_variable + "' = " + std::to_string(*step) +
                                     ", but is named for step " + std::to_string(claimed));
}

Result<Restored> Saver::RestoreNewest(const Session& session) {
  Restored restored;
  TENON_TRY_ASSIGN(CheckpointState state, Candidates());
  TENON_TRY_ASSIGN(best_, BestCheckpoints::Read(folder_));
  TENON_TRY(IfFree([&] {
    RemoveLeftovers(folder_);
    return Status();
  }));
  const size_t before = state.paths.size();
  if (before == 0) return restored;
  Code code = Code::kDataLoss;
  while (!state.paths.empty()) {
    const std::string name = state.paths.back();
    Status read = RestoreOne(session, PathOf(name));
    if (read.ok()) {
      restored.prefix = PathOf(name);
      restored.step = StepOfCheckpoint(name);
      break;
    }
    // A task that is gone, or a step that was stopped, says nothing of the checkpoint.
    if (read.code() == Code::kUnavailable || read.code() == Code::kAborted || read.code() == Code::kDeadlineExceeded ||
        read.code() == Code::kCancelled || read.code() == Code::kResourceExhausted ||
        read.code() == Code::kPermissionDenied) {
      return read.Annotate("checkpoint '" + PathOf(name) + "' could not be restored");
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
  if (state.paths.size() != before) TENON_TRY(IfFree([&] { return state.Write(folder_); }));
  state_ = std::move(state);
  return restored;
}

Status Saver::Clear() {
  state_ = CheckpointState();
  best_ = BestCheckpoints();
  const Result<CheckpointState> old = Candidates();
  if (!data::FileExists(folder_)) return Status();
  TENON_TRY(Claim());
  TENON_TRY(state_.Write(folder_));
  TENON_TRY(BestCheckpoints::Remove(folder_));
  RemoveLeftovers(folder_);
  for (const std::string& name : FindCheckpoints(folder_)) RemoveCheckpoint(PathOf(name));
  if (!old.ok()) return Status();  // a damaged `checkpoint` file named nothing that could be removed
  for (const std::string& name : old->paths) RemoveCheckpoint(PathOf(name));
  return Status();
}

// ---- Saving ----

// With the values beside them, where those can be had.
Status Saver::WriteVariables(const Session& session, const std::string& path) const {
  if (!options_.beside.empty() && nodes_.has_beside()) {
    const Status saved = nodes_.SaveWithBeside(
        session, path, options_.beside_feeds ? options_.beside_feeds() : std::vector<host::Feed>());
    if (saved.code() != Code::kUnimplemented) return saved;
    if (options_.without_beside) options_.without_beside(saved.message());
  } else if (!options_.beside.empty() && options_.without_beside) {
    options_.without_beside("the variables are of several tasks");
  }
  return nodes_.Save(session, path, TemporaryFolderFor(path));
}

// The checkpoint's files, whole and on the disk.
Status Saver::WriteFiles(const Session& session, const std::string& name) {
  TENON_TRY(Claim());
  if (!std::exchange(clean_, false)) RemoveLeftovers(folder_);
  if (best_.Forget(name)) TENON_TRY(best_.Write(folder_));  // an earlier run had come further: it is written anew
  const std::string path = PathOf(name);
  Status saved = WriteVariables(session, path);
  if (saved.ok()) saved = FlushCheckpoint(path, nodes_.shards());
  if (!saved.ok()) return saved.Annotate("checkpoint '" + path + "' cannot be written");
  clean_ = true;
  return Status();
}

// Takes the names out that are too many; gives those whose files need not be kept.
std::vector<std::string> Saver::Trim(CheckpointState& state) {
  std::vector<std::string> dropped;
  if (options_.keep_every_hours > 0 && state.last_preserved == 0) state.last_preserved = state.timestamps.front();
  while (state.paths.size() > static_cast<size_t>(options_.keep)) {
    const std::string name = state.paths.front();
    const double time = state.timestamps.front();
    state.paths.erase(state.paths.begin());
    state.timestamps.erase(state.timestamps.begin());
    if (options_.keep_every_hours > 0 && time - state.last_preserved >= options_.keep_every_hours * kHour) {
      state.last_preserved = time;
      for (BestCheckpoint& one : best_.list) one.kept |= one.name == name;
    } else {
      dropped.push_back(name);
    }
  }
  return dropped;
}

// dropped: more of what need not be kept.
Status Saver::AddToBest(const std::string& name, double metric, std::vector<std::string>& dropped) {
  for (const BestCheckpoint& out :
       best_.Add({metric, name}, static_cast<size_t>(options_.keep_best), options_.higher_is_better)) {
    const bool named = std::find(state_.paths.begin(), state_.paths.end(), out.name) != state_.paths.end();
    if (!named && !out.kept) dropped.push_back(out.name);
  }
  return best_.Write(folder_);
}

Result<std::string> Saver::Save(const Session& session, int64_t step, std::optional<double> metric) {
  const std::string name = CheckpointName(step);
  if (!state_.paths.empty() && NameOf(state_.paths.back()) == name) return PathOf(state_.paths.back());
  TENON_TRY(WriteFiles(session, name));

  CheckpointState next = state_;
  const double now = options_.clock();
  if (next.timestamps.size() != next.paths.size()) next.timestamps.assign(next.paths.size(), now);
  next.paths.push_back(name);
  next.timestamps.push_back(now);
  std::vector<std::string> dropped = Trim(next);
  TENON_TRY(next.Write(folder_));
  state_ = std::move(next);
  if (options_.keep_best > 0 && metric && std::isfinite(*metric)) TENON_TRY(AddToBest(name, *metric, dropped));
  for (const std::string& old : dropped) {
    if (best_.Find(old) == nullptr) RemoveCheckpoint(PathOf(old));
  }
  return PathOf(name);
}

}  // namespace tenon::train
