// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/cluster/private_folder.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace tenon::cli {
namespace {

using host::Code;
using host::Result;
using host::Status;

Status FolderProblem(const std::string& what) {
  const Code code = errno == EEXIST                     ? Code::kAlreadyExists
                    : errno == EACCES || errno == EPERM ? Code::kPermissionDenied
                    : errno == ENOENT                   ? Code::kNotFound
                                                        : Code::kUnavailable;
  return Status(code, what + ": " + std::strerror(errno));
}

// XDG_RUNTIME_DIR as its specification wants it: this user's, and nobody else's.
std::string RuntimeFolder() {
  const char* given = std::getenv("XDG_RUNTIME_DIR");
  struct stat info = {};
  const bool own = given != nullptr && given[0] == '/' && lstat(given, &info) == 0 && S_ISDIR(info.st_mode) &&
                   info.st_uid == geteuid() && (info.st_mode & 0077) == 0;
  return own && std::strlen(given) < 60 ? given : "/tmp";  // sockets' paths have 108 bytes
}

Status WriteAll(int file, const std::string& path, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = write(file, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return FolderProblem("writing " + path);
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return Status();
}

}  // namespace

Result<PrivateFolder> PrivateFolder::Make(const std::string& name) {
  std::string path = RuntimeFolder() + "/" + name + "_XXXXXX";
  if (mkdtemp(path.data()) == nullptr) return FolderProblem("making the folder " + path);
  return PrivateFolder(std::move(path));
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

Status WriteNewFile(const std::string& path, std::string_view bytes) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return FolderProblem("making " + path);
  Status written = WriteAll(file, path, bytes);
  if (close(file) != 0 && written.ok()) written = FolderProblem("writing " + path);
  if (!written.ok()) unlink(path.c_str());
  return written;
}

Status PutFile(const std::string& path, std::string_view bytes) {
  TENON_TRY_ASSIGN(const std::string digits, RandomDigits(8));
  const std::string beside = path + "." + digits;
  TENON_TRY(WriteNewFile(beside, bytes));
  if (rename(beside.c_str(), path.c_str()) == 0) return Status();
  const Status problem = FolderProblem("writing " + path);
  unlink(beside.c_str());
  return problem;
}

Result<std::string> RandomDigits(size_t bytes) {
  std::string out;
  for (size_t i = 0; i < bytes; ++i) {
    unsigned char byte = 0;
    while (getrandom(&byte, 1, 0) != 1)
      if (errno != EINTR) return FolderProblem("asking the system for random bytes");
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    out += digits;
  }
  return out;
}

}  // namespace tenon::cli
