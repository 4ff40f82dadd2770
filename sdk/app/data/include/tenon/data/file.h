// SPDX-License-Identifier: Apache-2.0
// Files: read whole, or replaced as a whole so that a crash leaves the old one or the new one.
//
// On the operating system's file system or, for a path "NAME://...", on the one that a plugin brings
// (tenon/host/files.h). Messages name the file and the reason.
#ifndef TENON_DATA_FILE_H_
#define TENON_DATA_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/data/base.h"

namespace tenon::data {

// How much memory may be made of files, all together.
class ReadLimit {
 public:
  explicit ReadLimit(uint64_t bytes = UINT64_MAX) : left_(bytes) {}
  // RESOURCE_EXHAUSTED says of `what`, a file or a part of one, how much it takes and how much is left.
  Status Check(uint64_t bytes, std::string_view what) const;
  // The same, and it is gone from what is left.
  Status Take(uint64_t bytes, std::string_view what);
  uint64_t left() const { return left_; }

 private:
  uint64_t left_;
};

// A file mapped for reading (where it cannot be mapped: read); the bytes live as long as the object. What is no
// ordinary file (a folder, a pipe, a device) is refused by its kind, without waiting for anybody.
class MappedFile {
 public:
  static Result<MappedFile> Open(const std::string& path);
  // Of a file that is not larger than what `limit` has left.
  static Result<MappedFile> Open(const std::string& path, const ReadLimit& limit);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();
  std::string_view bytes() const {
    return data_ == nullptr ? std::string_view(read_) : std::string_view(static_cast<const char*>(data_), size_);
  }

 private:
  MappedFile(void* data, size_t size) : data_(data), size_(size) {}
  explicit MappedFile(std::string bytes) : read_(std::move(bytes)) {}
  void* data_ = nullptr;
  size_t size_ = 0;
  std::string read_;
};

// An ordinary file of at most kMostRead bytes.
inline constexpr uint64_t kMostRead = uint64_t{1} << 30;
Result<std::string> ReadFile(const std::string& path);
// kDurable: when the call returns, the bytes are on the disk. kQuick: when the system likes.
enum class Durability { kDurable, kQuick };
// Writes the pieces, one after the other, beside the file and renames. What is no plain file (a device, a pipe, a link)
// is written in place.
Status ReplaceFile(const std::string& path, const std::vector<std::string_view>& pieces,
                   Durability durability = Durability::kDurable);
// Flushes a file that somebody else wrote to the disk.
Status FlushFile(const std::string& path);
// With the folders above it, durably.
Status MakeFolder(const std::string& path);
bool FileExists(const std::string& path);
// Names in a folder, sorted, without "." and "..".
Result<std::vector<std::string>> ListFolder(const std::string& path);
// "a/b" for "a/b/c", "." for "c", "memory://" for "memory://c"; a root for itself.
std::string FolderOf(const std::string& path);
std::string JoinPath(std::string_view folder, std::string_view name);

}  // namespace tenon::data

#endif  // TENON_DATA_FILE_H_
