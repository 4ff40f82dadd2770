// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/checkpoint_files.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <random>

#include "tenon/data/file.h"
#include "tenon/train/folder_lock.h"

namespace tenon::train {
namespace {

constexpr std::string_view kStem = "model.ckpt-";
constexpr std::string_view kIndexEnding = ".index";
constexpr std::string_view kTemporary = "_temp_";

std::string LastPart(const std::string& path) { return path.substr(path.rfind('/') + 1); }

void RemoveFolder(const std::string& folder) {
  if (const Result<std::vector<std::string>> files = data::ListFolder(folder); files.ok()) {
    for (const std::string& file : *files) (void)host::RemoveFile(data::JoinPath(folder, file));
  }
  (void)host::RemoveFile(folder);
}

}  // namespace

std::string CheckpointName(int64_t step) { return std::string(kStem) + std::to_string(step); }

int64_t StepOfCheckpoint(std::string_view name) {
  const size_t dash = name.rfind('-');
  if (dash == std::string_view::npos) return -1;
  const std::string_view digits = name.substr(dash + 1);
  int64_t step = -1;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  return parsed.ec == std::errc() && parsed.ptr == digits.data() + digits.size() ? step : -1;
}

std::vector<std::string> FindCheckpoints(const std::string& folder) {
  std::vector<std::string> found;
  const Result<std::vector<std::string>> names = data::ListFolder(folder);
  if (!names.ok()) return found;
  for (const std::string& name : *names) {
    if (!name.starts_with(kStem) || !name.ends_with(kIndexEnding)) continue;
    const std::string prefix = name.substr(0, name.size() - kIndexEnding.size());
    if (StepOfCheckpoint(prefix) >= 0) found.push_back(prefix);
  }
  std::sort(found.begin(), found.end(),
            [](const std::string& a, const std::string& b) { return StepOfCheckpoint(a) < StepOfCheckpoint(b); });
  return found;
}

Status FlushCheckpoint(const std::string& prefix, size_t shards) {
  std::vector<std::string> files = {prefix + std::string(kIndexEnding)};
  for (size_t i = 0; i < shards; ++i) {
    char ending[64];
    std::snprintf(ending, sizeof(ending), ".data-%05zu-of-%05zu", i, shards);
    files.push_back(prefix + ending);
  }
  for (const std::string& file : files) {
    if (!data::FileExists(file)) {
      return Status(
          Code::kNotFound,
          "'" + file + "' is missing after it was written; all tasks and this process must see the same files");
    }
    TENON_TRY(data::FlushFile(file));
  }
  return host::SyncDirectory(data::FolderOf(prefix));
}

void RemoveCheckpoint(const std::string& prefix) {
  const std::string folder = data::FolderOf(prefix), name = LastPart(prefix);
  const Result<std::vector<std::string>> files = data::ListFolder(folder);
  if (!files.ok()) return;
  for (const std::string& file : *files) {
    if (file == name + std::string(kIndexEnding) || file.starts_with(name + ".data-"))
      (void)host::RemoveFile(data::JoinPath(folder, file));
  }
}

std::string TemporaryFolderFor(const std::string& prefix) {
  std::random_device device;
  char unique[32];
  std::snprintf(unique, sizeof(unique), "%08x%08x", device(), device());
  return prefix + std::string(kTemporary) + unique;
}

void RemoveLeftovers(const std::string& folder) {
  const Result<std::vector<std::string>> names = data::ListFolder(folder);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (name.starts_with(kStem) && name.find(kTemporary) != std::string::npos)
      RemoveFolder(data::JoinPath(folder, name));
    // Of ReplaceFile, whose process is gone.
    if (name.starts_with("checkpoint.tmp") || name.starts_with("checkpoint_best.tmp"))
      (void)host::RemoveFile(data::JoinPath(folder, name));
  }
  for (const std::string& name : *names) {
    if (name.starts_with(kStem) && name.ends_with(".lock")) RemoveLockIfFree(data::JoinPath(folder, name));
  }
  // The index first: with it gone, data under temporary names mean nothing.
  for (const char* ending : {".index.tmp", ".tmp"}) {
    for (const std::string& name : *names) {
      if (name.starts_with(kStem) && name.ends_with(ending)) (void)host::RemoveFile(data::JoinPath(folder, name));
    }
  }
  // Data that got their name before their index did.
  for (const std::string& name : *names) {
    const size_t data = name.find(".data-");
    if (!name.starts_with(kStem) || data == std::string::npos) continue;
    const std::string index = name.substr(0, data) + std::string(kIndexEnding);
    if (!std::binary_search(names->begin(), names->end(), index)) (void)host::RemoveFile(data::JoinPath(folder, name));
  }
}

}  // namespace tenon::train
