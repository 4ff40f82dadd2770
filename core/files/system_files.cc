// SPDX-License-Identifier: Apache-2.0
#include "core/files/system_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>
#include <utility>

#include "core/base/status.h"
#include "core/files/file_size_signal.h"

struct tenon_file {
  int descriptor;
  std::string path;
};

namespace tenon::files {
namespace {

tenon_status* SystemError(const char* what, std::string_view path, int error) {
  const Code code = error == ENOENT || error == ENOTDIR                    ? Code::kNotFound
                    : error == EACCES || error == EPERM || error == EROFS  ? Code::kPermissionDenied
                    : error == ENOSPC || error == EDQUOT || error == EFBIG ? Code::kResourceExhausted
                    : error == EMFILE || error == ENFILE || error == ENOMEM ? Code::kResourceExhausted
                    : error == EEXIST                                      ? Code::kAlreadyExists
                    : error == EISDIR                                      ? Code::kInvalidArgument
                    : error == EIO                                         ? Code::kDataLoss
                                                                           : Code::kUnavailable;
  return Status(code, StrCat("cannot ", what, " '", path, "': ", std::generic_category().message(error))).release();
}

// Closes itself unless it is given away.
class OpenedFile {
 public:
  OpenedFile(const std::string& path, int flags) {
    // What waits for somebody when it is opened, a pipe for one, does not; nothing becomes the process's terminal.
    do {
      descriptor_ =
          open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);  // less what the user's umask takes
    } while (descriptor_ < 0 && errno == EINTR);
  }
  OpenedFile(const OpenedFile&) = delete;
  OpenedFile& operator=(const OpenedFile&) = delete;
  ~OpenedFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  int get() const { return descriptor_; }
  int Give() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_ = -1;
};

tenon_status* NotOrdinary(const char* what, const std::string& path) {
  return InvalidArgument(StrCat("cannot ", what, " '", path, "': it is no ordinary file")).release();
}

// An ordinary file, or what it is instead.
tenon_status* OpenPath(const char* what, tenon_span path, int flags, tenon_file** out_file) {
  const std::string name(View(path));
  if (name.empty() || name.find('\0') != std::string::npos)
    return InvalidArgument(StrCat("cannot ", what, ": the path is empty or has a NUL")).release();
  OpenedFile file(name, flags);
  if (file.get() < 0 && errno == ELOOP && (flags & O_NOFOLLOW) != 0)
    return InvalidArgument(
               StrCat("cannot ", what, " '", name, "': it is a link, which may lead anywhere; name the file itself"))
        .release();
  // A pipe that nobody reads; a socket.
  if (file.get() < 0 && errno == ENXIO) return NotOrdinary(what, name);
  if (file.get() < 0) return SystemError(what, name, errno);
  struct stat info;
  if (fstat(file.get(), &info) != 0) return SystemError(what, name, errno);
  if (!S_ISREG(info.st_mode)) return NotOrdinary(what, name);
  *out_file = new tenon_file{file.get(), name};
  file.Give();
  return nullptr;
}

tenon_status* OpenRead(tenon_span path, tenon_file** out_file) { return OpenPath("read", path, O_RDONLY, out_file); }
tenon_status* OpenAppend(tenon_span path, tenon_file** out_file) {
  return OpenPath("append to", path, O_WRONLY | O_CREAT | O_APPEND, out_file);
}

// One writer a file, which the system knows of, and forgets when the writer's process ends. *out_mine false: the name
// meanwhile leads to another file, because the writer before has removed or renamed this one.
tenon_status* Claim(const tenon_file& file, bool* out_mine) {
  *out_mine = true;
  if (flock(file.descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK)
      return Status(Code::kAborted, StrCat("cannot write '", file.path, "': somebody else is writing it")).release();
    return nullptr;  // a file system without locks
  }
  struct stat mine, named;
  if (fstat(file.descriptor, &mine) != 0) return SystemError("look at", file.path, errno);
  *out_mine = lstat(file.path.c_str(), &named) == 0 && mine.st_ino == named.st_ino && mine.st_dev == named.st_dev;
  return nullptr;
}

// Nothing is lost before the file is known to be nobody else's.
tenon_status* OpenWrite(tenon_span path, tenon_file** out_file) {
  constexpr int kMostTries = 100;
  for (int i = 0; i < kMostTries; ++i) {
    tenon_file* file = nullptr;
    if (tenon_status* bad = OpenPath("write", path, O_WRONLY | O_CREAT | O_NOFOLLOW, &file)) return bad;
    bool mine = false;
    tenon_status* bad = Claim(*file, &mine);
    if (bad == nullptr && mine && ftruncate(file->descriptor, 0) != 0) bad = SystemError("write", file->path, errno);
    if (bad == nullptr && mine) {
      *out_file = file;
      return nullptr;
    }
    close(file->descriptor);
    delete file;
    if (bad != nullptr) return bad;
  }
  return Status(Code::kAborted, StrCat("cannot write '", View(path), "': others make and remove it all the time"))
      .release();
}

tenon_status* Size(tenon_file* file, uint64_t* out_size) {
  struct stat info;
  if (fstat(file->descriptor, &info) != 0) return SystemError("look at", file->path, errno);
  *out_size = static_cast<uint64_t>(info.st_size);
  return nullptr;
}

tenon_status* ReadAt(tenon_file* file, uint64_t offset, void* target, uint64_t bytes) {
  auto* out = static_cast<char*>(target);
  while (bytes > 0) {
    const ssize_t got = pread(file->descriptor, out, std::min<uint64_t>(bytes, 1u << 30), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError("read", file->path, errno);
    if (got == 0)
      return OutOfRange(StrCat("'", file->path, "' ends at byte ", offset, ", ", bytes, " bytes too early")).release();
    out += got;
    offset += static_cast<uint64_t>(got);
    bytes -= static_cast<uint64_t>(got);
  }
  return nullptr;
}

tenon_status* Write(tenon_file* file, const void* source, uint64_t bytes) {
  const auto* in = static_cast<const char*>(source);
  const FileSizeSignal held;
  while (bytes > 0) {
    const ssize_t put = write(file->descriptor, in, std::min<uint64_t>(bytes, 1u << 30));
    if (put < 0 && errno == EINTR) continue;
    const int error = errno;
    if (put < 0 && error == EFBIG) held.TakeAway();
    if (put < 0) return SystemError("write", file->path, error);
    in += put;
    bytes -= static_cast<uint64_t>(put);
  }
  return nullptr;
}

tenon_status* Sync(tenon_file* file) {
  return fsync(file->descriptor) == 0 ? nullptr : SystemError("sync", file->path, errno);
}

tenon_status* CloseFile(tenon_file* file) {
  const int result = close(file->descriptor);
  const int error = errno;
  const std::string path = std::move(file->path);
  delete file;
  return result == 0 || error == EINTR ? nullptr : SystemError("close", path, error);
}

tenon_status* RenameFile(tenon_span from, tenon_span to) {
  const std::string source(View(from)), target(View(to));
  return rename(source.c_str(), target.c_str()) == 0
             ? nullptr
             : SystemError(("rename '" + source + "' to").c_str(), target, errno);
}

tenon_status* Remove(tenon_span path) {
  const std::string name(View(path));
  return std::remove(name.c_str()) == 0 ? nullptr : SystemError("remove", name, errno);
}

tenon_status* MakeDirectory(tenon_span path) {
  const std::string name(View(path));
  return mkdir(name.c_str(), 0777) == 0 || errno == EEXIST ? nullptr : SystemError("make the folder", name, errno);
}

tenon_status* SyncDirectory(tenon_span path) {
  const std::string name = path.size == 0 ? "." : std::string(View(path));
  const int descriptor = open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return SystemError("open the folder", name, errno);
  const int result = fsync(descriptor);
  const int error = errno;
  close(descriptor);
  // Some file systems cannot flush a folder; they order renames themselves.
  return result == 0 || error == EINVAL || error == EROFS ? nullptr : SystemError("sync the folder", name, error);
}

uint32_t FileExists(tenon_span path) {
  struct stat info;
  return stat(std::string(View(path)).c_str(), &info) == 0 ? 1 : 0;
}

tenon_status* ListFolder(tenon_span path, tenon_file_names names, void* argument) {
  const std::string name(View(path));
  DIR* folder = opendir(name.c_str());
  if (folder == nullptr) return SystemError("list the folder", name, errno);
  errno = 0;
  while (const dirent* entry = readdir(folder)) {
    const std::string_view found = entry->d_name;
    if (found != "." && found != "..") names(argument, Span(found));
    errno = 0;
  }
  const int error = errno;
  closedir(folder);
  return error == 0 ? nullptr : SystemError("list the folder", name, error);
}

}  // namespace

tenon_file* MakeSystemFile(int descriptor, std::string_view path) {
  return new tenon_file{descriptor, std::string(path)};
}
tenon_status* SystemFileError(const char* what, std::string_view path, int error) {
  return SystemError(what, path, error);
}

const tenon_files* SystemFiles() {
  static const tenon_files files = {TENON_HEAD(tenon_files),
                                    &OpenRead,
                                    &OpenWrite,
                                    &OpenAppend,
                                    &Size,
                                    &ReadAt,
                                    &Write,
                                    &Sync,
                                    &CloseFile,
                                    &RenameFile,
                                    &Remove,
                                    &MakeDirectory,
                                    &SyncDirectory,
                                    &FileExists,
                                    &ListFolder};
  return &files;
}

}  // namespace tenon::files
