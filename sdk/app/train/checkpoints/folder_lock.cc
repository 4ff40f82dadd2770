// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/folder_lock.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "tenon/data/file.h"

namespace tenon::train {
namespace {

constexpr std::string_view kLockFileName = "checkpoint.lock";

std::string ThisProcess() {
  char host[HOST_NAME_MAX + 1] = {};
  if (gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
  return "process " + std::to_string(getpid()) + (host[0] == '\0' ? "" : std::string(" on ") + host);
}

// What the holder wrote there; anybody may have.
std::string Holder(const std::string& path) {
  constexpr size_t kMost = 100;
  Result<std::string> read = data::ReadFile(path);
  if (!read.ok()) return "another process";
  read->resize(std::min(read->size(), kMost));
  std::erase_if(*read, [](char c) { return c < ' ' || c > '~'; });
  return read->empty() ? "another process" : *read;
}

}  // namespace

Result<FolderLock> FolderLock::Take(const std::string& folder) {
  const std::string path = data::JoinPath(folder, kLockFileName);
  Result<host::File> file = host::File::OpenWrite(path);
  if (!file.ok() && file.status().code() == Code::kAborted) {
    return Status(
        Code::kFailedPrecondition,
        "the folder '" + folder + "' is in use: " + Holder(path) +
            " saves checkpoints there; nothing of it was touched. Wait until that ends, or name another folder");
  }
  if (!file.ok()) return file.status();
  FolderLock lock(path, *std::move(file));
  TENON_TRY(lock.file_.Write(ThisProcess() + "\n"));
  return lock;
}

FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(file_, other.file_);
  return *this;
}

FolderLock::~FolderLock() {
  if (!path_.empty()) (void)host::RemoveFile(path_);  // while it is open: nobody else has it yet
}

void RemoveLockIfFree(const std::string& path) {
  const Result<host::File> file = host::File::OpenWrite(path);
  if (file.ok()) (void)host::RemoveFile(path);
}

}  // namespace tenon::train
