// SPDX-License-Identifier: Apache-2.0
#include "tree.h"

#include <cstring>

namespace tenon::memory_files {

using sdk::Failure;
using sdk::OpenMode;
using sdk::PathInside;

namespace {

std::string_view FolderOf(std::string_view inside) {
  const size_t slash = inside.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : inside.substr(0, slash);
}

tenon_status* NotThere(std::string_view what, std::string_view path) {
  return Failure(TENON_NOT_FOUND, "cannot ", what, " '", path, "': there is no such file or folder");
}

}  // namespace

// ---- The tree ----

bool Tree::IsFolder(std::string_view inside) const {
  if (inside.empty()) return true;
  const auto found = now_.find(inside);
  return found != now_.end() && found->second == nullptr;
}

tenon_status* Tree::NeedFolderOf(std::string_view what, std::string_view path, std::string_view inside) const {
  if (inside.empty()) return Failure(TENON_INVALID_ARGUMENT, "cannot ", what, " '", path, "': it is the root");
  if (IsFolder(FolderOf(inside))) return nullptr;
  return Failure(TENON_NOT_FOUND, "cannot ", what, " '", path, "': there is no folder for it");
}

tenon_status* Tree::Open(std::string_view path, OpenMode mode, std::unique_ptr<File>* out_file) {
  const std::string inside = PathInside(path);
  const char* what = mode == OpenMode::kRead ? "read" : mode == OpenMode::kWrite ? "write" : "append to";
  const std::lock_guard lock(mutex_);
  if (IsFolder(inside)) return Failure(TENON_INVALID_ARGUMENT, "cannot ", what, " '", path, "': it is a folder");
  auto found = now_.find(inside);
  if (found == now_.end()) {
    if (mode == OpenMode::kRead) return NotThere(what, path);
    TENON_SDK_RETURN_IF_ERROR(NeedFolderOf(what, path, inside));
    found = now_.emplace(inside, std::make_shared<Content>()).first;
  }
  if (mode == OpenMode::kWrite) {
    const std::lock_guard content_lock(found->second->mutex);
    if (found->second->written) return Failure(TENON_ABORTED, "cannot write '", path, "': somebody else is writing it");
    found->second->written = writers_ == Writers::kOne;
    found->second->bytes.clear();
    found->second->durable = 0;
  }
  *out_file = std::make_unique<File>(std::string(path), mode, found->second, crashes_);
  return nullptr;
}

tenon_status* Tree::Rename(std::string_view from, std::string_view to) {
  const std::string source = PathInside(from), target = PathInside(to);
  const std::string what = sdk::Concat("rename '", from, "' to");
  const std::lock_guard lock(mutex_);
  const auto found = now_.find(source);
  if (found == now_.end()) return NotThere("rename", from);
  if (found->second == nullptr)
    return Failure(TENON_UNIMPLEMENTED, "cannot ", what, " '", to, "': only files are renamed");
  TENON_SDK_RETURN_IF_ERROR(NeedFolderOf(what, to, target));
  if (IsFolder(target)) return Failure(TENON_INVALID_ARGUMENT, "cannot ", what, " '", to, "': it is a folder");
  if (source == target) return nullptr;
  now_[target] = found->second;
  now_.erase(source);
  return nullptr;
}

tenon_status* Tree::Remove(std::string_view path) {
  const std::string inside = PathInside(path);
  const std::lock_guard lock(mutex_);
  const auto found = now_.find(inside);
  if (found == now_.end()) return inside.empty() ? NeedFolderOf("remove", path, inside) : NotThere("remove", path);
  if (found->second == nullptr && !NamesIn(now_, inside).empty())
    return Failure(TENON_FAILED_PRECONDITION, "cannot remove '", path, "': the folder is not empty");
  now_.erase(found);
  return nullptr;
}

tenon_status* Tree::MakeDirectory(std::string_view path) {
  const std::string inside = PathInside(path);
  const std::lock_guard lock(mutex_);
  if (IsFolder(inside)) return nullptr;
  if (now_.contains(inside))
    return Failure(TENON_ALREADY_EXISTS, "cannot make the folder '", path, "': there is a file of that name");
  TENON_SDK_RETURN_IF_ERROR(NeedFolderOf("make the folder", path, inside));
  now_.emplace(inside, nullptr);
  return nullptr;
}

std::vector<std::string> Tree::NamesIn(const Entries& entries, std::string_view folder) {
  const std::string prefix = folder.empty() ? std::string() : std::string(folder) + '/';
  std::vector<std::string> names;
  for (auto at = entries.lower_bound(prefix); at != entries.end() && at->first.starts_with(prefix); ++at) {
    const std::string_view rest = std::string_view(at->first).substr(prefix.size());
    if (rest.find('/') == std::string_view::npos) names.emplace_back(rest);
  }
  return names;
}

tenon_status* Tree::SyncDirectory(std::string_view path) {
  const std::string folder = PathInside(path);
  const std::lock_guard lock(mutex_);
  if (!IsFolder(folder)) return NotThere("sync the folder", path);
  const std::string prefix = folder.empty() ? folder : folder + '/';
  for (const std::string& name : NamesIn(durable_, folder)) durable_.erase(prefix + name);
  for (const std::string& name : NamesIn(now_, folder)) durable_[prefix + name] = now_.at(prefix + name);
  return nullptr;
}

tenon_status* Tree::List(std::string_view path, std::vector<std::string>* out_names) {
  const std::string inside = PathInside(path);
  const std::lock_guard lock(mutex_);
  if (!IsFolder(inside)) return NotThere("list the folder", path);
  *out_names = NamesIn(now_, inside);
  return nullptr;
}

bool Tree::Exists(std::string_view path) {
  const std::string inside = PathInside(path);
  const std::lock_guard lock(mutex_);
  return inside.empty() || now_.contains(inside);
}

void Tree::Crash() {
  const std::lock_guard lock(mutex_);
  ++crashes_;
  // Parents come before what is in them; what has lost its folder is lost.
  now_.clear();
  for (const auto& [inside, content] : durable_) {
    if (!IsFolder(FolderOf(inside))) continue;
    now_.emplace(inside, content);
    if (content == nullptr) continue;
    const std::lock_guard content_lock(content->mutex);
    content->written = false;
    content->bytes.resize(content->durable);
  }
  durable_ = now_;
}

// ---- A file ----

tenon_status* Tree::File::Usable(std::string_view what) const {
  if (crashes_ == born_) return nullptr;
  return Failure(TENON_UNAVAILABLE, "cannot ", what, " '", path_, "': the file system has crashed since it was opened");
}

Tree::File::~File() {
  if (mode_ != OpenMode::kWrite || crashes_ != born_) return;  // after a crash it may have another writer
  const std::lock_guard lock(content_->mutex);
  content_->written = false;
}

tenon_status* Tree::File::Size(uint64_t* out_size) {
  TENON_SDK_RETURN_IF_ERROR(Usable("look at"));
  const std::lock_guard lock(content_->mutex);
  *out_size = content_->bytes.size();
  return nullptr;
}

tenon_status* Tree::File::ReadAt(uint64_t offset, void* target, uint64_t bytes) {
  TENON_SDK_RETURN_IF_ERROR(Usable("read"));
  if (mode_ != OpenMode::kRead)
    return Failure(TENON_FAILED_PRECONDITION, "cannot read '", path_, "': it was opened for writing");
  const std::lock_guard lock(content_->mutex);
  const uint64_t size = content_->bytes.size();
  if (offset > size || bytes > size - offset)
    return Failure(TENON_OUT_OF_RANGE, "'", path_, "' ends at byte ", size, "; bytes ", offset, " to ", offset + bytes,
                   " were asked for");
  std::memcpy(target, content_->bytes.data() + offset, bytes);
  return nullptr;
}

tenon_status* Tree::File::Write(const void* source, uint64_t bytes) {
  TENON_SDK_RETURN_IF_ERROR(Usable("write"));
  if (mode_ == OpenMode::kRead)
    return Failure(TENON_FAILED_PRECONDITION, "cannot write '", path_, "': it was opened for reading");
  const std::lock_guard lock(content_->mutex);
  content_->bytes.append(static_cast<const char*>(source), bytes);
  return nullptr;
}

tenon_status* Tree::File::Sync() {
  TENON_SDK_RETURN_IF_ERROR(Usable("sync"));
  const std::lock_guard lock(content_->mutex);
  content_->durable = content_->bytes.size();
  return nullptr;
}

}  // namespace tenon::memory_files
