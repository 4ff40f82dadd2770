// SPDX-License-Identifier: Apache-2.0
#include "tenon/data/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace tenon::data {
namespace {

// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

// Does not wait for the other end of a pipe.
int OpenRetrying(const std::string& path, int flags) {
  int fd = -1;
  do {
    fd = open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

// What stands at a path that is no ordinary file.
std::string_view KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe, which is not read";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

Status WriteNewFile(const std::string& path, const std::vector<std::string_view>& pieces, Durability durability) {
  TENON_TRY_ASSIGN(host::File file, host::File::OpenWrite(path));
  for (std::string_view piece : pieces) TENON_TRY(file.Write(piece));
  if (durability == Durability::kDurable) TENON_TRY(file.Sync());
  return file.Close();
}

Status SystemError(std::string_view what, const std::string& path, int error) {
  Code code = Code::kUnknown;
  if (error == ENOENT || error == ENOTDIR) code = Code::kNotFound;
  if (error == EACCES || error == EPERM || error == EROFS) code = Code::kPermissionDenied;
  if (error == ENOSPC || error == ENOMEM || error == EDQUOT || error == EMFILE) code = Code::kResourceExhausted;
  if (error == EEXIST) code = Code::kAlreadyExists;
  if (error == EISDIR) code = Code::kInvalidArgument;
  return Status(code, std::string(what) + " '" + path + "': " + std::strerror(error));
}

// Of a file system that cannot map: the bytes, read.
Result<std::string> ReadWhole(const std::string& path, const ReadLimit& limit) {
  TENON_TRY_ASSIGN(const host::File file, host::File::OpenRead(path));
  TENON_TRY_ASSIGN(const uint64_t size, file.Size());
  TENON_TRY(limit.Check(size, "'" + path + "'"));
  std::string bytes(size, '\0');
  TENON_TRY(file.ReadAt(0, bytes.data(), bytes.size()));
  return bytes;
}

Status WriteAll(const Descriptor& file, const std::string& path, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = write(file.get(), bytes.data(), std::min<size_t>(bytes.size(), 1u << 30));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return SystemError("write", path, errno);
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return Status();
}

// A device, or a pipe that somebody reads; a reader that is slow is waited for.
Status WriteInPlace(const std::string& path, const std::vector<std::string_view>& pieces) {
  const Descriptor file(OpenRetrying(path, O_WRONLY));
  if (file.get() < 0 && errno == ENXIO)
    return Status(Code::kFailedPrecondition, "write '" + path + "': it is a pipe or a socket, and nobody reads it");
  if (file.get() < 0) return SystemError("write", path, errno);
  fcntl(file.get(), F_SETFL, fcntl(file.get(), F_GETFL) & ~O_NONBLOCK);
  for (std::string_view piece : pieces) TENON_TRY(WriteAll(file, path, piece));
  return Status();
}

// Where a link leads; "" when that is no ordinary file.
std::string OrdinaryTarget(const std::string& link) {
  char target[PATH_MAX];
  struct stat info = {};
  if (realpath(link.c_str(), target) == nullptr || stat(target, &info) != 0 || !S_ISREG(info.st_mode)) return "";
  return target;
}

Status NotOrdinary(const std::string& path, mode_t mode) {
  return Status(Code::kInvalidArgument,
                "read '" + path + "': it is " + std::string(KindOf(mode)) + "; give an ordinary file");
}

bool HasScheme(const std::string& path) { return path.find("://") != std::string::npos; }

}  // namespace

Status ReadLimit::Check(uint64_t bytes, std::string_view what) const {
  if (bytes <= left_) return Status();
  return Status(Code::kResourceExhausted, std::string(what) + " takes " + std::to_string(bytes) +
                                              " bytes of memory, and " + std::to_string(left_) +
                                              " are left of the limit");
}

Status ReadLimit::Take(uint64_t bytes, std::string_view what) {
  TENON_TRY(Check(bytes, what));
  left_ -= bytes;
  return Status();
}

Result<MappedFile> MappedFile::Open(const std::string& path) {
  return Open(path, ReadLimit());
}

Result<MappedFile> MappedFile::Open(const std::string& path, const ReadLimit& limit) {
  Descriptor file(OpenRetrying(path, O_RDONLY));
  if (file.get() < 0 && HasScheme(path)) {
    TENON_TRY_ASSIGN(std::string bytes, ReadWhole(path, limit));
    return MappedFile(std::move(bytes));
  }
  struct stat info = {};
  if (file.get() < 0 && errno == ENXIO && stat(path.c_str(), &info) == 0) return NotOrdinary(path, info.st_mode);
  if (file.get() < 0) return SystemError("open", path, errno);
  if (fstat(file.get(), &info) != 0) return SystemError("read", path, errno);
  if (!S_ISREG(info.st_mode)) return NotOrdinary(path, info.st_mode);
  if (info.st_size == 0) return MappedFile(nullptr, 0);
  const auto size = static_cast<size_t>(info.st_size);
  TENON_TRY(limit.Check(size, "'" + path + "'"));
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) return SystemError("map", path, errno);
  return MappedFile(data, size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)), read_(std::move(other.read_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(read_, other.read_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(data_, size_);
}

Result<std::string> ReadFile(const std::string& path) {
  return ReadWhole(path, ReadLimit(kMostRead));
}

Status ReplaceFile(const std::string& path, const std::vector<std::string_view>& pieces, Durability durability) {
  struct stat info = {};
  const bool in_place = lstat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
  if (in_place && S_ISLNK(info.st_mode)) {
    if (const std::string target = OrdinaryTarget(path); !target.empty())
      return WriteNewFile(target, pieces, Durability::kQuick);
    if (stat(path.c_str(), &info) != 0) return SystemError("write", path, errno);  // it leads nowhere
  }
  if (in_place) return WriteInPlace(path, pieces);
  const std::string temporary = path + ".tmp" + std::to_string(getpid());
  Status replaced = WriteNewFile(temporary, pieces, durability);
  if (replaced.ok()) replaced = host::RenameFile(temporary, path);
  if (!replaced.ok()) {
    (void)host::RemoveFile(temporary);
    return replaced;
  }
  return durability == Durability::kDurable ? host::SyncDirectory(FolderOf(path)) : Status();
}

Status FlushFile(const std::string& path) {
  TENON_TRY_ASSIGN(host::File file, host::File::OpenAppend(path));
  TENON_TRY(file.Sync());
  return file.Close();
}

Status MakeFolder(const std::string& path) {
  if (host::PathExists(path)) return Status();
  const std::string folder = FolderOf(path);
  if (folder != path) TENON_TRY(MakeFolder(folder));
  TENON_TRY(host::MakeDirectory(path));
  return host::SyncDirectory(folder);
}

bool FileExists(const std::string& path) { return host::PathExists(path); }

Result<std::vector<std::string>> ListFolder(const std::string& path) {
  TENON_TRY_ASSIGN(std::vector<std::string> names, host::ListDirectory(path));
  std::sort(names.begin(), names.end());
  return names;
}

std::string FolderOf(const std::string& path) {
  std::string trimmed = path;
  while (trimmed.size() > 1 && trimmed.back() == '/' && !trimmed.ends_with("://")) trimmed.pop_back();
  const size_t slash = trimmed.rfind('/');
  if (slash == std::string::npos) return ".";
  if (trimmed.substr(0, slash + 1).ends_with("://")) return trimmed.substr(0, slash + 1);
  return slash == 0 ? "/" : trimmed.substr(0, slash);
}

std::string JoinPath(std::string_view folder, std::string_view name) {
  std::string path(folder);
  if (!path.empty() && path.back() != '/') path += '/';
  return path.append(name);
}

}  // namespace tenon::data
