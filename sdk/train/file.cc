// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tenon::train {
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

int OpenRetrying(const std::string& path, int flags, mode_t mode = 0) {
  int fd = -1;
  do {
    fd = open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), std::min<size_t>(bytes.size(), size_t{1} << 30));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemError("write", path, errno);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return Status();
}

Status WriteNewFile(const std::string& path, const std::vector<std::string_view>& pieces, Durability durability) {
  Descriptor file(OpenRetrying(path, O_WRONLY | O_CREAT | O_TRUNC, 0666));
  if (file.get() < 0) return SystemError("create", path, errno);
  for (std::string_view piece : pieces) TENON_TRY(WriteAll(file.get(), piece, path));
  if (durability == Durability::kDurable && fsync(file.get()) != 0) return SystemError("flush", path, errno);
  return Status();
}

}  // namespace

Status SystemError(std::string_view what, const std::string& path, int error) {
  Code code = Code::kUnknown;
  if (error == ENOENT || error == ENOTDIR) code = Code::kNotFound;
  if (error == EACCES || error == EPERM || error == EROFS) code = Code::kPermissionDenied;
  if (error == ENOSPC || error == ENOMEM || error == EDQUOT || error == EMFILE) code = Code::kResourceExhausted;
  if (error == EEXIST) code = Code::kAlreadyExists;
  if (error == EISDIR) code = Code::kInvalidArgument;
  return Status(code, std::string(what) + " '" + path + "': " + std::strerror(error));
}

Result<MappedFile> MappedFile::Open(const std::string& path) {
  Descriptor file(OpenRetrying(path, O_RDONLY));
  if (file.get() < 0) return SystemError("open", path, errno);
  struct stat info = {};
  if (fstat(file.get(), &info) != 0) return SystemError("read", path, errno);
  if (S_ISDIR(info.st_mode)) return SystemError("read", path, EISDIR);
  if (!S_ISREG(info.st_mode)) return Status(Code::kInvalidArgument, "read '" + path + "': not a plain file");
  if (info.st_size == 0) return MappedFile(nullptr, 0);
  const auto size = static_cast<size_t>(info.st_size);
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) return SystemError("map", path, errno);
  return MappedFile(data, size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(data_, size_);
}

Result<std::string> ReadFile(const std::string& path) {
  TENON_TRY_ASSIGN(MappedFile file, MappedFile::Open(path));
  return std::string(file.bytes());
}

Status ReplaceFile(const std::string& path, const std::vector<std::string_view>& pieces, Durability durability) {
  struct stat info = {};
  const bool in_place = lstat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
  if (in_place) return WriteNewFile(path, pieces, Durability::kQuick);
  const std::string temporary = path + ".tmp" + std::to_string(getpid());
  if (Status written = WriteNewFile(temporary, pieces, durability); !written.ok()) {
    unlink(temporary.c_str());
    return written;
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    unlink(temporary.c_str());
    return SystemError("rename to", path, error);
  }
  return durability == Durability::kDurable ? FlushToDisk(FolderOf(path)) : Status();
}

Status FlushToDisk(const std::string& path) {
  Descriptor file(OpenRetrying(path, O_RDONLY));
  if (file.get() < 0) return SystemError("open", path, errno);
  // Some file systems cannot flush a folder; they order renames themselves.
  if (fsync(file.get()) != 0 && errno != EINVAL && errno != EROFS) return SystemError("flush", path, errno);
  return Status();
}

Status MakeFolder(const std::string& path) {
  if (path.empty() || path == "/" || path == ".") return Status();
  struct stat info = {};
  if (stat(path.c_str(), &info) == 0) {
    return S_ISDIR(info.st_mode) ? Status() : SystemError("make folder", path, ENOTDIR);
  }
  TENON_TRY(MakeFolder(FolderOf(path)));
  if (mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) return SystemError("make folder", path, errno);
  return Status();
}

bool FileExists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

Result<std::vector<std::string>> ListFolder(const std::string& path) {
  DIR* folder = opendir(path.c_str());
  if (folder == nullptr) return SystemError("list folder", path, errno);
  std::vector<std::string> names;
  while (const dirent* entry = readdir(folder)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  closedir(folder);
  std::sort(names.begin(), names.end());
  return names;
}

std::string FolderOf(const std::string& path) {
  std::string trimmed = path;
  while (trimmed.size() > 1 && trimmed.back() == '/') trimmed.pop_back();
  const size_t slash = trimmed.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : trimmed.substr(0, slash);
}

std::string JoinPath(std::string_view folder, std::string_view name) {
  std::string path(folder);
  if (!path.empty() && path.back() != '/') path += '/';
  return path.append(name);
}

}  // namespace tenon::train
