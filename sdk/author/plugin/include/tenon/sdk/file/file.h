// SPDX-License-Identifier: Apache-2.0
// A face over the host's files (tenon/ext/files.h): opened files close themselves, failures leave as in kernels: thrown
// (kernel.h), with the path and the reason in their text. NOT_FOUND, PERMISSION_DENIED, RESOURCE_EXHAUSTED (a full
// disk) are of any function. Sizes and offsets are bytes. A path may have a scheme ("memory://..."). One file is for
// one thread at a time.
#ifndef TENON_SDK_FILE_FILE_H_
#define TENON_SDK_FILE_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/ext/files.h"
#include "tenon/sdk/kernel/kernel.h"

namespace tenon::sdk {

// The host's files, as these headers know them: a function that an older host does not have is NULL. UNIMPLEMENTED when
// it offers none.
inline const tenon_files& HostFiles() {
  const auto* files =
      static_cast<const tenon_files*>(tenon_plugin_host->get_extension(ToSpan(TENON_EXTENSION_FILES)));
  if (files == nullptr) {
    Fail(TENON_UNIMPLEMENTED, "the host offers no files (extension ", TENON_EXTENSION_FILES, ")");
  }
  if (files->struct_size >= sizeof(tenon_files)) return *files;
  static const tenon_files whole = [files] {
    tenon_files copy;
    tenon_plugin_take(&copy, sizeof copy, files);
    return copy;
  }();
  return whole;
}

// False for a failure with this code; any other one leaves.
inline bool IsNot(tenon_status* status, uint32_t code) {
  if (status == nullptr) return true;
  if (tenon_plugin_host->status_code(status) != code) throw KernelError(status);
  tenon_plugin_host->status_release(status);
  return false;
}

class File {
 public:
  static File ForReading(const tenon_files& files, std::string path) {
    File file(files, std::move(path));
    Check(files.open_read(ToSpan(file.path_), &file.file_));
    return file;
  }
  // Of a file that may not be there. Asking first whether it exists would take a failure to look for its absence.
  static std::optional<File> IfThere(const tenon_files& files, std::string path) {
    File file(files, std::move(path));
    return IsNot(files.open_read(ToSpan(file.path_), &file.file_), TENON_NOT_FOUND)
               ? std::optional<File>(std::move(file))
               : std::nullopt;
  }
  // As ForWriting, where nobody else writes it, as far as the file system can tell.
  static std::optional<File> IfNobodyWrites(const tenon_files& files, std::string path) {
    File file(files, std::move(path));
    return IsNot(files.open_write(ToSpan(file.path_), &file.file_), TENON_ABORTED)
               ? std::optional<File>(std::move(file))
               : std::nullopt;
  }
  // Creates or truncates. ABORTED where somebody else writes it, on file systems that can tell.
  static File ForWriting(const tenon_files& files, std::string path) {
    File file(files, std::move(path));
    Check(files.open_write(ToSpan(file.path_), &file.file_));
    return file;
  }
  // To make durable what somebody else has written.
  static File ForAppending(const tenon_files& files, std::string path) {
    File file(files, std::move(path));
    Check(files.open_append(ToSpan(file.path_), &file.file_));
    return file;
  }
  File(File&& other) noexcept
      : files_(other.files_), path_(std::move(other.path_)), file_(std::exchange(other.file_, nullptr)) {}
  File& operator=(File&&) = delete;
  ~File() {
    if (file_ == nullptr) return;
    // What was not closed in order has failed already; the first failure counts.
    if (tenon_status* status = files_->close(file_)) tenon_plugin_host->status_release(status);
  }

  const std::string& path() const { return path_; }
  uint64_t size() const {
    uint64_t size = 0;
    Check(files_->size(file_, &size));
    return size;
  }
  // Exactly so many; OUT_OF_RANGE when the file is shorter.
  void ReadAt(uint64_t offset, void* target, uint64_t bytes) const {
    if (bytes > 0) Check(files_->read_at(file_, offset, target, bytes));
  }
  // Behind what was written before.
  void Write(const void* source, uint64_t bytes) {
    if (bytes > 0) Check(files_->write(file_, source, bytes));
  }
  // Makes what was written durable, and closes; the name is durable after SyncFolderOf. Nothing but the destructor
  // after it.
  void SyncAndClose() {
    Check(files_->sync(file_));
    Check(files_->close(std::exchange(file_, nullptr)));
  }

 private:
  File(const tenon_files& files, std::string path) : files_(&files), path_(std::move(path)) {}
  const tenon_files* files_;
  std::string path_;
  tenon_file* file_ = nullptr;
};

// "" for a path without a folder; the root for itself: "/", "memory://".
inline std::string_view FolderOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return {};
  const bool root = slash == 0 || path.substr(0, slash + 1).ends_with("://");
  return path.substr(0, slash + (root ? 1 : 0));
}

inline void Rename(const tenon_files& files, std::string_view from, std::string_view to) {
  Check(files.rename(ToSpan(from), ToSpan(to)));
}

// Makes renames in the folder of `path` durable.
inline void SyncFolderOf(const tenon_files& files, std::string_view path) {
  const std::string_view folder = FolderOf(path);
  Check(files.sync_directory(ToSpan(folder.empty() ? std::string_view(".") : folder)));
}

// Makes the folder and those above it, where they are not there, durably.
inline void MakeFolders(const tenon_files& files, std::string_view folder) {
  if (folder.empty() || files.exists(ToSpan(folder)) != 0) return;
  if (FolderOf(folder) != folder) MakeFolders(files, FolderOf(folder));
  tenon_status* status = files.make_directory(ToSpan(folder));
  if (status != nullptr && tenon_plugin_host->status_code(status) == TENON_ALREADY_EXISTS) {
    tenon_plugin_host->status_release(status);  // someone else was faster
    status = nullptr;
  }
  Check(status);
  SyncFolderOf(files, folder);
}

// True when it is certain that nothing is there any more, even if the power goes.
inline bool RemoveDurably(const tenon_files& files, std::string_view path) noexcept {
  const std::string_view folder = FolderOf(path);
  tenon_status* status = files.remove(ToSpan(path));
  if (status != nullptr && tenon_plugin_host->status_code(status) == TENON_NOT_FOUND) {
    tenon_plugin_host->status_release(status);
    status = nullptr;
  }
  if (status == nullptr) status = files.sync_directory(ToSpan(folder.empty() ? std::string_view(".") : folder));
  if (status == nullptr) return true;
  tenon_plugin_host->status_release(status);
  return false;
}

// Removes what may be there; that it is not, or stays, does no harm.
inline void RemoveIfThere(const tenon_files& files, std::string_view path) noexcept {
  if (files.exists(ToSpan(path)) == 0) return;
  if (tenon_status* status = files.remove(ToSpan(path))) tenon_plugin_host->status_release(status);
}

}  // namespace tenon::sdk
#endif  // TENON_SDK_FILE_FILE_H_
