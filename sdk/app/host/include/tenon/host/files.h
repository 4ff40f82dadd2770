// SPDX-License-Identifier: Apache-2.0
// Files, on the operating system's or any other file system: "NAME://path" leads to the one that a plugin brings.
//
// The files are the process's, the same that ops get (plugin_api's ext/files.h says what each function does). The
// plugin of a scheme is opened when it is first asked for, so a runtime must be there that has found it, and must stay
// while its files are open. Different files may be used from different threads, one file that is written from one
// thread at a time. Errors name the path and the reason: NOT_FOUND, PERMISSION_DENIED, RESOURCE_EXHAUSTED (a full
// disk), and for a scheme that nobody brings which plugin is missing. Offsets and sizes are bytes.
#ifndef TENON_HOST_FILES_H_
#define TENON_HOST_FILES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/host/status.h"

namespace tenon::host {

// An open file; closes itself, but then nobody hears that closing failed.
class File {
 public:
  static Result<File> OpenRead(std::string_view path) { return Open(tenon_runtime_files()->open_read, path); }
  // Creates or truncates.
  static Result<File> OpenWrite(std::string_view path) { return Open(tenon_runtime_files()->open_write, path); }
  // Creates, or continues at the end.
  static Result<File> OpenAppend(std::string_view path) { return Open(tenon_runtime_files()->open_append, path); }
  File(File&& other) noexcept : file_(std::exchange(other.file_, nullptr)) {}
  File& operator=(File&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  ~File() { (void)Close(); }

  Result<uint64_t> Size() const {
    uint64_t size = 0;
    TENON_TRY(Call(tenon_runtime_files()->size, &size));
    return size;
  }
  // Exactly `bytes`; OUT_OF_RANGE when the file is shorter.
  Status ReadAt(uint64_t offset, void* target, uint64_t bytes) const {
    return Call(tenon_runtime_files()->read_at, offset, target, bytes);
  }
  // All of them, behind what was written before.
  Status Write(std::string_view bytes) {
    return Call(tenon_runtime_files()->write, static_cast<const void*>(bytes.data()),
                static_cast<uint64_t>(bytes.size()));
  }
  // When it returns, what was written survives a loss of power, once the folder is synced too.
  Status Sync() { return Call(tenon_runtime_files()->sync); }
  // A second one does nothing; anything else on a closed file is FAILED_PRECONDITION.
  Status Close() {
    return file_ == nullptr ? Status() : Status::Take(tenon_runtime_files()->close(std::exchange(file_, nullptr)));
  }

 private:
  explicit File(tenon_file* file) : file_(file) {}
  static Result<File> Open(tenon_status* (*open)(tenon_span, tenon_file**), std::string_view path) {
    tenon_file* file = nullptr;
    TENON_TRY(Status::Take(open(Span(path), &file)));
    return File(file);
  }
  template <typename... Parameters, typename... Arguments>
  Status Call(tenon_status* (*function)(tenon_file*, Parameters...), Arguments... arguments) const {
    if (file_ == nullptr) return Status(Code::kFailedPrecondition, "the file is closed");
    return Status::Take(function(file_, arguments...));
  }

  tenon_file* file_;
};

inline Status RenameFile(std::string_view from, std::string_view to) {
  return Status::Take(tenon_runtime_files()->rename(Span(from), Span(to)));
}
// A file, or a folder that is empty; NOT_FOUND where there is neither.
inline Status RemoveFile(std::string_view path) { return Status::Take(tenon_runtime_files()->remove(Span(path))); }
// One that exists is no error.
inline Status MakeDirectory(std::string_view path) {
  return Status::Take(tenon_runtime_files()->make_directory(Span(path)));
}
// When it returns, the names in the folder survive a loss of power.
inline Status SyncDirectory(std::string_view path) {
  return Status::Take(tenon_runtime_files()->sync_directory(Span(path)));
}
// False too where it cannot be found out.
inline bool PathExists(std::string_view path) { return tenon_runtime_files()->exists(Span(path)) != 0; }
// The names in a folder, in any order, without "." and "..".
inline Result<std::vector<std::string>> ListDirectory(std::string_view path) {
  std::vector<std::string> names;
  const auto add = [](void* to, tenon_span name) {
    static_cast<std::vector<std::string>*>(to)->emplace_back(Text(name));
  };
  TENON_TRY(Status::Take(tenon_runtime_files()->list(Span(path), add, &names)));
  return names;
}

}  // namespace tenon::host

#endif  // TENON_HOST_FILES_H_
