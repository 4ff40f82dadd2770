// SPDX-License-Identifier: Apache-2.0
#include "core/files/mounts.h"

#include <algorithm>

#include "tenon/bytes/near_miss.h"

namespace tenon::files {
namespace {

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool MayStand(char c) { return IsLetter(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.'; }
bool IsScheme(std::string_view text) {
  return !text.empty() && IsLetter(text[0]) && std::all_of(text.begin(), text.end(), MayStand);
}

}  // namespace

std::string_view SchemeOf(std::string_view path) {
  const size_t end = path.find(kEndOfScheme);
  if (end == std::string_view::npos || !IsScheme(path.substr(0, end))) return {};
  return path.substr(0, end);
}

// ---- One file system ----

tenon_status* Mount::Gone() const {
  return FailedPrecondition(
             StrCat("the plugin '", plugin_, "', which brought the file system '", scheme_, "', was unloaded"))
      .release();
}

tenon_status* Mount::Open(decltype(tenon_filesystem::open_read) tenon_filesystem::*how, tenon_span path,
                          tenon_file** out_file) {
  return Call([&](const tenon_filesystem& table, tenon_plugin_self* self) -> tenon_status* {
    *out_file = nullptr;
    if (tenon_status* bad = (table.*how)(self, path, out_file)) return bad;
    if (*out_file == nullptr)
      return Internal(StrCat(DescribePlugin(plugin_), ": it opened '", View(path), "' with success and gave no file"))
          .release();
    const std::lock_guard lock(open_mutex_);
    open_.insert(*out_file);
    return nullptr;
  });
}

tenon_status* Mount::Close(tenon_file* file) {
  const std::shared_lock lock(mutex_);
  {
    const std::lock_guard open_lock(open_mutex_);
    if (open_.erase(file) == 0) return Gone();
  }
  return CallPlugin(plugin_, "close", [&] { return table_->close(file); }).release();
}

void Mount::Unmount() {
  const std::unique_lock lock(mutex_);
  mounted_ = false;
  for (tenon_file* file : open_) (void)CallPlugin(plugin_, "close", [&] { return table_->close(file); }).ok();
  open_.clear();
}

int64_t Mount::open_files() const {
  const std::lock_guard lock(open_mutex_);
  return static_cast<int64_t>(open_.size());
}

// ---- All of them ----

Mounts& Mounts::The() {
  // Threads may outlive the static objects; and who only takes leave of it may have no memory left.
  alignas(Mounts) static unsigned char memory[sizeof(Mounts)];
  static Mounts* const mounts = new (memory) Mounts;
  return *mounts;
}

Status Mounts::Add(const void* owner, std::string_view plugin, const tenon_filesystem* table, tenon_plugin_self* self) {
  const tenon_filesystem& t = *table;
  if (!IsScheme(View(t.scheme)))
    return InvalidArgument(
        StrCat("a file system has the scheme '", View(t.scheme), "', which cannot stand before ://"));
  const bool whole = t.open_read != nullptr && t.open_write != nullptr && t.open_append != nullptr &&
                     t.size != nullptr && t.read_at != nullptr && t.write != nullptr && t.sync != nullptr &&
                     t.close != nullptr && t.rename != nullptr && t.remove != nullptr && t.make_directory != nullptr &&
                     t.sync_directory != nullptr && t.exists != nullptr && t.list != nullptr;
  if (!whole)
    return InvalidArgument(
        StrCat("the file system '", View(t.scheme), "' lacks a function of ", TENON_CAPABILITY_FILESYSTEM));
  const std::lock_guard lock(mutex_);
  mounts_.push_back(std::make_shared<Mount>(owner, std::string(plugin), table, self));
  return Status::Ok();
}

template <typename Which>
void Mounts::RemoveIf(Which which) {
  // One by one: a list of them would want memory, which who leaves may not have.
  for (;;) {
    std::shared_ptr<Mount> gone;
    {
      const std::lock_guard lock(mutex_);
      const auto found = std::find_if(mounts_.begin(), mounts_.end(), [&](const auto& mount) { return which(*mount); });
      if (found == mounts_.end()) return;
      gone = std::move(*found);
      mounts_.erase(found);
    }
    gone->Unmount();
  }
}

void Mounts::Remove(const void* owner, std::string_view plugin) {
  RemoveIf([&](const Mount& mount) { return mount.Is(owner, plugin); });
}

void Mounts::RemoveAll(const void* owner) {
  RemoveIf([&](const Mount& mount) { return mount.Is(owner); });
}

int64_t Mounts::OpenFiles(const void* owner, std::string_view plugin) const {
  const std::lock_guard lock(mutex_);
  int64_t count = 0;
  for (const auto& mount : mounts_)
    if (mount->Is(owner, plugin)) count += mount->open_files();
  return count;
}

void Mounts::AddOpener(const void* owner, Opener opener) {
  auto entry = std::make_shared<OpenerEntry>();
  entry->owner = owner;
  entry->open = std::move(opener);
  const std::lock_guard lock(mutex_);
  openers_.push_back(std::move(entry));
}

void Mounts::RemoveOpener(const void* owner) {
  std::shared_ptr<OpenerEntry> entry;
  {
    const std::lock_guard lock(mutex_);
    const auto found =
        std::find_if(openers_.begin(), openers_.end(), [&](const auto& opener) { return opener->owner == owner; });
    if (found == openers_.end()) return;
    entry = *found;
    openers_.erase(found);
  }
  const std::unique_lock until_it_has_returned(entry->running);
  entry->open = nullptr;
}

std::shared_ptr<Mount> Mounts::Known(std::string_view scheme) const {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(mounts_.begin(), mounts_.end(), [&](const auto& mount) { return mount->scheme() == scheme; });
  return found == mounts_.end() ? nullptr : *found;
}

std::shared_ptr<Mount> Mounts::AskOpeners(std::string_view scheme) {
  thread_local bool asking = false;  // a plugin that asks for files while it is opened is not opened for them again
  if (asking) return nullptr;
  std::vector<std::shared_ptr<OpenerEntry>> openers;
  {
    const std::lock_guard lock(mutex_);
    openers = openers_;
  }
  for (const auto& opener : openers) {
    asking = true;
    {
      const std::shared_lock running(opener->running);
      if (opener->open) opener->open(scheme);
    }
    asking = false;
    if (auto known = Known(scheme)) return known;
  }
  return nullptr;
}

Result<std::shared_ptr<Mount>> Mounts::Find(std::string_view scheme) {
  if (auto known = Known(scheme)) return known;
  if (auto opened = AskOpeners(scheme)) return opened;
  std::set<std::string_view> there;
  const std::lock_guard lock(mutex_);
  for (const auto& mount : mounts_) there.insert(mount->scheme());
  std::string names;
  sdk::NearMiss near(scheme);
  for (std::string_view name : there) {
    names += StrCat(names.empty() ? "" : ", ", name);
    near.Try(name);
  }
  return NotFound(StrCat("no plugin brings the file system '", scheme, "'", near.Hint(),
                         near.Hint().empty() ? "; install" : " Install", " one ('tenon.files.", scheme,
                         "'), or load one that has it. Those that are there: ", names.empty() ? "none" : names));
}

}  // namespace tenon::files
