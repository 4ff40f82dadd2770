// SPDX-License-Identifier: Apache-2.0
#include "core/files/granted_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <utility>

#include "core/files/system_files.h"

namespace tenon::files {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    const int error = errno;  // of the call that found that there is nothing to go on with
    if (number_ >= 0) close(number_);
    errno = error;
  }
  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }
  bool ok() const { return number_ >= 0; }

 private:
  int number_;
};

int Retrying(auto open) {
  int descriptor;
  do {
    descriptor = open();
  } while (descriptor < 0 && (errno == EINTR || errno == EAGAIN));  // EAGAIN: something was renamed meanwhile
  return descriptor;
}

int OpenStepByStep(int folder, std::string_view rest, int flags, mode_t mode) {
  Descriptor above(-1);
  for (;;) {
    const size_t slash = rest.find('/');
    const std::string piece(rest.empty() || slash == 0 ? "." : rest.substr(0, slash));
    const int from = above.ok() ? above.get() : folder;
    if (piece == "..") return errno = EXDEV, -1;
    if (slash == std::string_view::npos) return openat(from, piece.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, mode);
    Descriptor next(openat(from, piece.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat info;
    if (!next.ok() || fstat(next.get(), &info) != 0) return -1;
    if (!S_ISDIR(info.st_mode)) return errno = S_ISLNK(info.st_mode) ? ELOOP : ENOTDIR, -1;
    above = std::move(next);
    rest.remove_prefix(slash + 1);
  }
}

int OpenAt2(int folder, const char* rest, int flags, mode_t mode, uint64_t resolve) {
  open_how how = {};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
  how.mode = (flags & O_CREAT) != 0 ? mode : 0;
  how.resolve = resolve;
  return Retrying([&] { return static_cast<int>(syscall(SYS_openat2, folder, rest, &how, sizeof how)); });
}

bool HasNoOpenAt2() { return errno == ENOSYS || errno == EPERM; }  // EPERM: a sandbox that does not know it

// The folder that a grant's root is now: no piece of it may have become a link.
int OpenRoot(const std::string& root) {
  const int folder = OpenAt2(AT_FDCWD, root.c_str(), O_PATH | O_DIRECTORY, 0, RESOLVE_NO_SYMLINKS);
  if (folder >= 0 || !HasNoOpenAt2()) return folder;
  const Descriptor top(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  return root.size() < 2 ? open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)
                         : OpenStepByStep(top.get(), root.substr(1), O_PATH | O_DIRECTORY, 0);
}

}  // namespace

int OpenBeneath(int folder, const char* rest, int flags, mode_t mode, Beneath how) {
  if (how == Beneath::kKernel) {
    const int opened = OpenAt2(folder, rest, flags, mode, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
    if (opened >= 0 || !HasNoOpenAt2()) return opened;
  }
  const int opened = Retrying([&] { return OpenStepByStep(folder, rest, flags, mode); });
  struct stat info;
  // O_PATH opens a link itself.
  if (opened >= 0 && (flags & O_PATH) != 0 && fstat(opened, &info) == 0 && S_ISLNK(info.st_mode)) {
    close(opened);
    return errno = ELOOP, -1;
  }
  return opened;
}

namespace {

// An open folder, and the name of what is meant in it. Of a root it is the folder above.
struct Place {
  Descriptor folder;
  std::string name;
};
Place PlaceOf(const GrantedPath& path) {
  const std::string& whole = path.rest.empty() ? path.root : path.rest;
  const size_t slash = whole.rfind('/');
  const std::string name = slash == std::string::npos ? whole : whole.substr(slash + 1);
  const std::string above = slash == std::string::npos ? "." : slash == 0 ? "/" : whole.substr(0, slash);
  if (path.rest.empty()) return {Descriptor(OpenRoot(above)), name};
  const Descriptor root(OpenRoot(path.root));
  return {Descriptor(root.ok() ? OpenBeneath(root.get(), above.c_str(), O_PATH | O_DIRECTORY, 0) : -1), name};
}

Descriptor OpenFile(const GrantedPath& path, int flags) {
  if (path.rest.empty()) {  // a file that was granted by its own name
    const Place place = PlaceOf(path);
    return Descriptor(place.folder.ok() ? OpenBeneath(place.folder.get(), place.name.c_str(), flags | O_NOFOLLOW, 0666)
                                        : -1);
  }
  const Descriptor root(OpenRoot(path.root));
  return Descriptor(root.ok() ? OpenBeneath(root.get(), path.rest.c_str(), flags, 0666) : -1);
}

// Where what is open stands, as the kernel says: without links. Empty: it does not.
std::string PathOf(int opened) {
  std::string path(PATH_MAX, '\0');
  const ssize_t size = readlink(StrCat("/proc/self/fd/", opened).c_str(), path.data(), path.size());
  path.resize(size < 0 || static_cast<size_t>(size) == path.size() ? 0 : static_cast<size_t>(size));
  return path;
}

Descriptor OpenFolder(const GrantedPath& path) {
  const Descriptor root(OpenRoot(path.root));
  return Descriptor(
      root.ok() ? OpenBeneath(root.get(), path.rest.empty() ? "." : path.rest.c_str(), O_RDONLY | O_DIRECTORY, 0) : -1);
}

}  // namespace

tenon_status* GrantedFiles::Explain(const char* what, bool write, int error) const {
  if (error == EXDEV || error == ELOOP)
    return grants_.Refuse(path_, write, "a link on its way leads out of the folder that was granted").release();
  return SystemFileError(what, path_, error);
}

// Links stay in the folder that was granted, and may lead into one below it that was granted for reading alone: what is
// written is looked at where it stands.
Status GrantedFiles::CheckMayWrite(const GrantedPath& granted, int opened, std::string_view name) const {
  if (!grants_.HasReadOnlyBelow(granted.root)) return Status::Ok();
  const std::string path = PathOf(opened), stands = path.empty() || name.empty() ? path : StrCat(path, "/", name);
  if (!stands.empty() && grants_.Find(stands, /*write=*/true).ok()) return Status::Ok();
  return grants_.Refuse(path_, /*write=*/true,
                        stands.empty() ? "the kernel does not say where it stands (is /proc there?)"
                                       : "a link on its way leads into a folder that was granted for reading alone");
}

Result<int> GrantedFiles::OpenToWrite(const GrantedPath& granted, const char* what, int flags) const {
  if (!grants_.HasReadOnlyBelow(granted.root)) {
    Descriptor file = OpenFile(granted, flags);
    if (!file.ok()) return Status(Explain(what, true, errno));
    return file.release();
  }
  if (const Descriptor there = OpenFile(granted, O_PATH); there.ok()) {
    TENON_RETURN_IF_ERROR(CheckMayWrite(granted, there.get(), ""));
    const int file = open(StrCat("/proc/self/fd/", there.get()).c_str(), (flags & ~O_CREAT) | O_CLOEXEC);
    if (file < 0) return Status(Explain(what, true, errno));
    return file;
  }
  if (errno != ENOENT) return Status(Explain(what, true, errno));
  const Place place = PlaceOf(granted);
  if (!place.folder.ok()) return Status(Explain(what, true, errno));
  TENON_RETURN_IF_ERROR(CheckMayWrite(granted, place.folder.get(), place.name));
  const int file = openat(place.folder.get(), place.name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (file < 0) return Status(Explain(what, true, errno));
  return file;
}

tenon_status* GrantedFiles::Open(const char* what, bool write, int flags, tenon_file** out_file) const {
  auto found = grants_.Find(path_, write);
  if (!found.ok()) return Status(found.status()).release();
  // A pipe that nobody writes or reads is not waited for.
  const int how = flags | O_NONBLOCK | O_NOCTTY;
  const Result<int> opened = write ? OpenToWrite(*found, what, how) : OpenFile(*found, how).release();
  if (!opened.ok()) return Status(opened.status()).release();
  Descriptor file(*opened);
  struct stat info;
  if (!file.ok() || fstat(file.get(), &info) != 0) return Explain(what, write, errno);
  if (!S_ISREG(info.st_mode))
    return InvalidArgument(StrCat("cannot ", what, " '", path_, "': it is no ordinary file")).release();
  *out_file = MakeSystemFile(file.release(), path_);
  return nullptr;
}

tenon_status* GrantedFiles::OpenRead(tenon_file** out_file) const { return Open("read", false, O_RDONLY, out_file); }
tenon_status* GrantedFiles::OpenWrite(tenon_file** out_file) const {
  return Open("write", true, O_WRONLY | O_CREAT | O_TRUNC, out_file);
}
tenon_status* GrantedFiles::OpenAppend(tenon_file** out_file) const {
  return Open("append to", true, O_WRONLY | O_CREAT | O_APPEND, out_file);
}

tenon_status* GrantedFiles::RenameTo(std::string_view to) const {
  auto from = grants_.FindMovable(path_);
  auto target = grants_.FindMovable(to);
  if (!from.ok() || !target.ok()) return Status(from.ok() ? target.status() : from.status()).release();
  const Place source = PlaceOf(*from), destination = PlaceOf(*target);
  for (const auto& [granted, place] : {std::pair(&*from, &source), std::pair(&*target, &destination)})
    if (place->folder.ok())
      if (Status status = CheckMayWrite(*granted, place->folder.get(), place->name); !status.ok())
        return status.release();
  const bool done =
      source.folder.ok() && destination.folder.ok() &&
      renameat(source.folder.get(), source.name.c_str(), destination.folder.get(), destination.name.c_str()) == 0;
  return done ? nullptr : Explain(StrCat("rename to '", to, "'").c_str(), true, errno);
}

tenon_status* GrantedFiles::Remove() const {
  auto found = grants_.FindMovable(path_);
  if (!found.ok()) return Status(found.status()).release();
  const Place place = PlaceOf(*found);
  if (!place.folder.ok()) return Explain("remove", true, errno);
  if (Status status = CheckMayWrite(*found, place.folder.get(), place.name); !status.ok()) return status.release();
  if (unlinkat(place.folder.get(), place.name.c_str(), 0) == 0) return nullptr;
  const bool is_folder = errno == EISDIR || errno == EPERM;
  if (is_folder && unlinkat(place.folder.get(), place.name.c_str(), AT_REMOVEDIR) == 0) return nullptr;
  return Explain("remove", true, errno);
}

tenon_status* GrantedFiles::MakeDirectory() const {
  auto found = grants_.Find(path_, /*write=*/true);
  // Whoever makes a path makes each folder on it, from the top. Nothing is done to those above what was granted, which
  // are there if that is; of others it is not told.
  if (!found.ok() && grants_.IsAbove(path_)) return nullptr;
  if (!found.ok()) return Status(found.status()).release();
  const Place place = PlaceOf(*found);
  if (place.folder.ok())
    if (Status status = CheckMayWrite(*found, place.folder.get(), place.name); !status.ok()) return status.release();
  const bool there =
      place.folder.ok() && (mkdirat(place.folder.get(), place.name.c_str(), 0777) == 0 || errno == EEXIST);
  return there ? nullptr : Explain("make the folder", true, errno);
}

tenon_status* GrantedFiles::SyncDirectory() const {
  auto found = grants_.Find(path_, /*write=*/false);
  // After a folder was made, or found there, each one above it is synced: that shows nothing and changes nothing.
  if (!found.ok() && grants_.IsAbove(path_)) return SystemFiles()->sync_directory(Span(path_));
  if (!found.ok()) return Status(found.status()).release();
  const Descriptor folder = OpenFolder(*found);
  if (!folder.ok()) return Explain("open the folder", false, errno);
  // Some file systems cannot flush a folder; they order renames themselves.
  return fsync(folder.get()) == 0 || errno == EINVAL || errno == EROFS ? nullptr
                                                                       : Explain("sync the folder", false, errno);
}

bool GrantedFiles::Exists() const {
  const auto found = grants_.Find(path_, /*write=*/false);
  return found.ok() && (found->rest.empty() ? Descriptor(OpenRoot(found->root)) : OpenFile(*found, O_PATH)).ok();
}

tenon_status* GrantedFiles::List(tenon_file_names names, void* argument) const {
  auto found = grants_.Find(path_, /*write=*/false);
  if (!found.ok()) return Status(found.status()).release();
  Descriptor opened = OpenFolder(*found);
  DIR* folder = opened.ok() ? fdopendir(opened.get()) : nullptr;
  if (folder == nullptr) return Explain("list the folder", false, errno);
  opened.release();  // the folder's now
  errno = 0;
  while (const dirent* entry = readdir(folder)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names(argument, Span(name));
    errno = 0;
  }
  const int error = errno;
  closedir(folder);
  return error == 0 ? nullptr : Explain("list the folder", false, error);
}

}  // namespace tenon::files
