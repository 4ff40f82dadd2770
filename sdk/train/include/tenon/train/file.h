// SPDX-License-Identifier: Apache-2.0
// Files: read whole, or replaced as a whole so that a crash leaves the old one or the new one.
//
// Messages name the file and the system's reason.
#ifndef TENON_TRAIN_FILE_H_
#define TENON_TRAIN_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/train/base.h"

namespace tenon::train {

// A file mapped for reading; the bytes live as long as the object.
class MappedFile {
 public:
  static Result<MappedFile> Open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();
  std::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }

 private:
  MappedFile(void* data, size_t size) : data_(data), size_(size) {}
  void* data_ = nullptr;
  size_t size_ = 0;
};

Result<std::string> ReadFile(const std::string& path);
// kDurable: when the call returns, the bytes are on the disk. kQuick: when the system likes.
enum class Durability { kDurable, kQuick };
// Writes the pieces, one after the other, beside the file and renames. What is no plain file (a device, a pipe, a link)
// is written in place.
Status ReplaceFile(const std::string& path, const std::vector<std::string_view>& pieces,
                   Durability durability = Durability::kDurable);
// Flushes a file that somebody else wrote, or a folder, to the disk.
Status FlushToDisk(const std::string& path);
// With the folders above it.
Status MakeFolder(const std::string& path);
bool FileExists(const std::string& path);
// Names in a folder, sorted, without "." and "..".
Result<std::vector<std::string>> ListFolder(const std::string& path);
// "a/b" for "a/b/c", "." for "c".
std::string FolderOf(const std::string& path);
std::string JoinPath(std::string_view folder, std::string_view name);
// The status of a failed system call: code from errno, "open 'x': No such file or directory".
Status SystemError(std::string_view what, const std::string& path, int error);

}  // namespace tenon::train

#endif  // TENON_TRAIN_FILE_H_
