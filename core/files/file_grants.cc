// SPDX-License-Identifier: Apache-2.0
#include "core/files/file_grants.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <optional>

#include "core/files/mounts.h"

namespace tenon::files {
namespace {

constexpr std::string_view kReadOnly = ":ro";

// "/a/b" of "/a/./c/../b/" and, below the current folder, of "b"; empty when there is none.
std::string Absolute(std::string_view path) {
  std::error_code failed;
  std::string text = std::filesystem::absolute(std::filesystem::path(path), failed).lexically_normal().string();
  if (failed) return {};
  while (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

// A path of a file system of a plugin: what ".." means there is not ours to know, so such a path is nobody's.
bool HasDots(std::string_view path) {
  for (const auto& piece : std::filesystem::path(path))
    if (piece == "..") return true;
  return false;
}

// What follows the folder in a path below it, without a slash at its ends; nullopt: it is not below.
std::optional<std::string> Below(std::string_view folder, std::string_view path) {
  if (!path.starts_with(folder)) return std::nullopt;
  std::string_view rest = path.substr(folder.size());
  if (!rest.empty() && !folder.ends_with('/') && rest[0] != '/') return std::nullopt;
  while (rest.starts_with('/')) rest.remove_prefix(1);
  while (rest.ends_with('/')) rest.remove_suffix(1);
  return std::string(rest);
}

bool IsFile(const std::string& path) {
  std::error_code failed;
  return std::filesystem::is_regular_file(path, failed);
}

}  // namespace

struct FileGrants::Owners {
  std::mutex mutex;
  std::map<const void*, FileGrants> each;
  std::shared_ptr<const FileGrants> together;
};

FileGrants::Owners& FileGrants::TheOwners() {
  // Threads may outlive the static objects; and who only takes leave may have no memory left.
  alignas(Owners) static unsigned char memory[sizeof(Owners)];
  static Owners* const owners = new (memory) Owners;
  return *owners;
}

Result<FileGrant> FileGrant::Parse(std::string_view text) {
  FileGrant grant;
  const std::string_view whole = text;
  if (text.ends_with(kReadOnly)) {
    grant.read_only = true;
    text.remove_suffix(kReadOnly.size());
  }
  if (text.empty() || text.find('\0') != std::string_view::npos)
    return InvalidArgument(StrCat(
        "'", whole, "' grants no files: it must be PATH, PATH:ro, or NAME:// of a file system that a plugin brings"));
  if (!SchemeOf(text).empty()) {
    if (HasDots(text)) return InvalidArgument(StrCat("'", whole, "' grants no files: it has '..'"));
    grant.root = grant.given = text;
    return grant;
  }
  grant.given = Absolute(text);
  std::error_code failed;
  grant.root =
      std::filesystem::weakly_canonical(std::filesystem::path(grant.given), failed).string();  // it may be made later
  if (failed || grant.given.empty() || grant.root.empty())
    return InvalidArgument(
        StrCat("'", whole, "' grants no files: ", failed ? failed.message() : "the current folder is gone"));
  while (grant.root.size() > 1 && grant.root.ends_with('/')) grant.root.pop_back();
  return grant;
}

std::shared_ptr<const FileGrants> FileGrants::Current() {
  Owners& owners = TheOwners();
  const std::lock_guard lock(owners.mutex);
  return owners.together;
}

void FileGrants::Restrict(const void* owner, std::string_view task, std::vector<FileGrant> grants) {
  Owners& owners = TheOwners();
  const std::lock_guard lock(owners.mutex);
  FileGrants& own = owners.each[owner];
  own.task_ = task;
  own.grants_ = std::move(grants);
  owners.together = Together(owners.each);
}

void FileGrants::Lift(const void* owner) {
  Owners& owners = TheOwners();
  const std::lock_guard lock(owners.mutex);
  if (owners.each.erase(owner) == 0) return;
  try {
    owners.together = Together(owners.each);
  } catch (const std::bad_alloc&) {  // what was granted to all before stays so until somebody else comes or goes
  }
}

std::shared_ptr<const FileGrants> FileGrants::Together(const std::map<const void*, FileGrants>& each) {
  if (each.empty()) return nullptr;
  auto together = std::make_shared<FileGrants>();
  for (const auto& [owner, grants] : each) {
    if (!grants.task_.empty()) together->task_ = grants.task_;
    together->grants_.insert(together->grants_.end(), grants.grants_.begin(), grants.grants_.end());
  }
  return together;
}

Status FileGrants::Refuse(std::string_view path, bool write, std::string_view why) const {
  const bool scheme = !SchemeOf(path).empty();
  const std::string folder =
      scheme ? StrCat(SchemeOf(path), kEndOfScheme) : std::filesystem::path(Absolute(path)).parent_path().string();
  std::string granted;
  for (const FileGrant& grant : grants_)
    granted += StrCat(granted.empty() ? "" : ", ", grant.given, grant.read_only ? kReadOnly : "");
  return Status(Code::kPermissionDenied,
                StrCat(task_.empty() ? "this process" : StrCat("task ", task_), " may not ", write ? "write" : "read",
                       " '", path, "': ", why, " (granted: ", granted.empty() ? "nothing" : granted,
                       "). Whoever starts it grants files with --files ", folder, write ? "" : kReadOnly));
}

bool FileGrants::IsAbove(std::string_view path) const {
  if (!SchemeOf(path).empty()) return false;
  const std::string absolute = Absolute(path);
  return std::any_of(grants_.begin(), grants_.end(), [&](const FileGrant& grant) {
    return SchemeOf(grant.root).empty() && (Below(absolute, grant.root) || Below(absolute, grant.given));
  });
}

bool FileGrants::HasReadOnlyBelow(const std::string& root) const {
  return std::any_of(grants_.begin(), grants_.end(),
                     [&](const FileGrant& grant) { return grant.read_only && Below(root, grant.root); });
}

Result<GrantedPath> FileGrants::Find(std::string_view path, bool write) const {
  const bool scheme = !SchemeOf(path).empty();
  const std::string absolute = scheme ? std::string(path) : Absolute(path);
  const FileGrant* best = nullptr;
  GrantedPath found;
  for (const FileGrant& grant : grants_) {
    if (scheme != !SchemeOf(grant.root).empty() || (scheme && HasDots(path))) continue;
    auto rest = Below(grant.given, absolute);
    if (!rest) rest = Below(grant.root, absolute);
    // Of two that say the same the one that grants more.
    if (!rest || (best != nullptr &&
                  (rest->size() > found.rest.size() || (rest->size() == found.rest.size() && !best->read_only))))
      continue;
    best = &grant;
    found = {grant.root, *std::move(rest)};
  }
  if (best == nullptr) return Refuse(path, write, "it stands in no folder that was granted");
  if (write && best->read_only) return Refuse(path, write, "its folder was granted for reading alone");
  return found;
}

Result<GrantedPath> FileGrants::FindMovable(std::string_view path) const {
  TENON_ASSIGN_OR_RETURN(GrantedPath found, Find(path, /*write=*/true));
  const std::string whole =
      found.rest.empty() ? found.root : StrCat(found.root, found.root.ends_with('/') ? "" : "/", found.rest);
  for (const FileGrant& grant : grants_)
    if (!(found.rest.empty() && IsFile(grant.root)) && Below(whole, grant.root))
      return Refuse(path, /*write=*/true, "what was granted itself stays where it is");
  return found;
}

}  // namespace tenon::files
