// SPDX-License-Identifier: Apache-2.0
// A disk that tells all that a loss of power could leave of it.
//
// The model is what POSIX promises, and no more. Changes of names (a file or folder that is made, renamed, removed)
// wait until their folder is synced; a rename is one change, whole or not at all, and one between two folders is
// durable with either. Bytes wait until their file is synced. When the power goes, any of the changes of names that
// wait may have come to the disk, in any order, and of the bytes that wait: none, all, the first half, or zeros in
// their place. So only a sync puts two changes in order.
//
// After every change the disk notes all the contents that it could come back with. What is equal is noted once.
#ifndef TENON_TESTS_FAKES_CRASH_DISK_H_
#define TENON_TESTS_FAKES_CRASH_DISK_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tenon/ext/files.h"
#include "tenon/testing/host.h"

namespace tenon::fakes {

class CrashDisk {
 public:
  // What stands on a disk: a file's bytes; nothing: a folder.
  struct Entry {
    bool folder = false;
    std::string bytes;
    auto operator<=>(const Entry&) const = default;
  };
  using Contents = std::map<std::string, Entry>;

  CrashDisk() = default;
  // As it comes back with these.
  explicit CrashDisk(const Contents& contents) {
    for (const auto& [path, entry] : contents) now_[path] = std::make_shared<Node>(Node{entry, entry.bytes});
    durable_ = now_;
  }

  static CrashDisk*& Current() {
    static CrashDisk* current = nullptr;
    return current;
  }
  // All that it could have come back with since `possible` was cleared.
  std::set<Contents> possible;
  // Changes are counted; number fail_at fails, without effect.
  int changes = 0, fail_at = 0;

  Contents Now() const {
    Contents contents;
    for (const auto& [path, node] : now_) contents[path] = node->entry;
    return contents;
  }

  static const tenon_files* Files() {
    static const tenon_files table = MakeTable();
    return &table;
  }

 private:
  struct Node {
    Entry entry;
    std::string durable;
  };
  using Names = std::map<std::string, std::shared_ptr<Node>>;
  // Names that get a node, or none; at once.
  struct Change {
    std::vector<std::pair<std::string, std::shared_ptr<Node>>> names;
  };
  struct Open {
    std::string path;
    std::shared_ptr<Node> node;
  };

  static std::string FolderOf(const std::string& path) {
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash);
  }
  static void Apply(const Change& change, Names& names) {
    for (const auto& [path, node] : change.names) {
      if (node == nullptr) names.erase(path);
      else names[path] = node;
    }
  }
  tenon_status* Fails(const std::string& path) {
    return ++changes == fail_at ? testing::NewStatus(TENON_RESOURCE_EXHAUSTED, path + ": no space left") : nullptr;
  }
  void Do(Change change) {
    Apply(change, now_);
    waiting_.push_back(std::move(change));
    Note();
  }
  void SyncFolder(const std::string& folder) {
    std::erase_if(waiting_, [&](const Change& change) {
      const bool here = std::any_of(change.names.begin(), change.names.end(),
                                    [&](const auto& name) { return FolderOf(name.first) == folder; });
      if (here) Apply(change, durable_);
      return here;
    });
    Note();
  }

  // ---- What it could come back with ----

  void Note() {
    std::set<std::pair<uint64_t, Names>> seen;
    NoteNames(0, durable_, seen);
  }
  // Every subset of the waiting changes, in every order; orders that lead to the same are gone through once.
  void NoteNames(uint64_t done, const Names& names, std::set<std::pair<uint64_t, Names>>& seen) {
    if (!seen.emplace(done, names).second) return;
    NoteBytes(names, names.begin(), {});
    for (size_t next = 0; next < waiting_.size(); ++next) {
      if ((done >> next & 1) != 0) continue;
      Names more = names;
      Apply(waiting_[next], more);
      NoteNames(done | uint64_t{1} << next, more, seen);
    }
  }
  void NoteBytes(const Names& names, Names::const_iterator at, Contents contents) {
    if (at == names.end()) {
      possible.insert(std::move(contents));
      return;
    }
    const auto& [path, node] = *at;
    const auto folder = names.find(FolderOf(path));
    const bool lost = FolderOf(path) != "." && (folder == names.end() || !folder->second->entry.folder);
    const std::string &now = node->entry.bytes, &durable = node->durable;
    std::set<std::string> bytes = {durable, now};
    const size_t half = durable.size() + (now.size() - std::min(now.size(), durable.size())) / 2;
    if (now != durable) bytes.insert({now.substr(0, half), std::string(now.size(), '\0')});
    for (const std::string& one : bytes) {
      Contents more = contents;
      if (!lost) more[path] = {node->entry.folder, one};
      NoteBytes(names, std::next(at), std::move(more));
      if (lost) break;
    }
  }

  // ---- The table ----

  static tenon_status* OpenFile(tenon_span path, bool make, bool clear, tenon_file** out) {
    CrashDisk& disk = *Current();
    const std::string name(testing::View(path));
    auto found = disk.now_.find(name);
    if (found == disk.now_.end() && !make)
      return testing::NewStatus(TENON_NOT_FOUND, "open " + name + ": no such file");
    if (make) {
      if (tenon_status* bad = disk.Fails(name)) return bad;
    }
    if (found == disk.now_.end()) {
      disk.Do({{{name, std::make_shared<Node>()}}});
      found = disk.now_.find(name);
    } else if (clear) {
      found->second->entry.bytes.clear();
      disk.Note();
    }
    *out = reinterpret_cast<tenon_file*>(new Open{name, found->second});
    return nullptr;
  }
  static Open& Of(tenon_file* file) { return *reinterpret_cast<Open*>(file); }

  static tenon_files MakeTable() {
    tenon_files f = {};
    f.struct_size = sizeof(f);
    f.open_read = [](tenon_span path, tenon_file** out) { return OpenFile(path, false, false, out); };
    f.open_write = [](tenon_span path, tenon_file** out) { return OpenFile(path, true, true, out); };
    f.open_append = [](tenon_span path, tenon_file** out) { return OpenFile(path, true, false, out); };
    f.size = [](tenon_file* file, uint64_t* out) -> tenon_status* {
      *out = Of(file).node->entry.bytes.size();
      return nullptr;
    };
    f.read_at = [](tenon_file* file, uint64_t offset, void* target, uint64_t bytes) -> tenon_status* {
      const std::string& text = Of(file).node->entry.bytes;
      if (offset > text.size() || bytes > text.size() - offset)
        return testing::NewStatus(TENON_OUT_OF_RANGE, Of(file).path + " is shorter");
      std::memcpy(target, text.data() + offset, bytes);
      return nullptr;
    };
    f.write = [](tenon_file* file, const void* source, uint64_t bytes) -> tenon_status* {
      if (tenon_status* bad = Current()->Fails(Of(file).path)) return bad;
      Of(file).node->entry.bytes.append(static_cast<const char*>(source), bytes);
      Current()->Note();
      return nullptr;
    };
    f.sync = [](tenon_file* file) -> tenon_status* {
      if (tenon_status* bad = Current()->Fails(Of(file).path)) return bad;
      Of(file).node->durable = Of(file).node->entry.bytes;
      Current()->Note();
      return nullptr;
    };
    f.close = [](tenon_file* file) -> tenon_status* {
      delete &Of(file);
      return nullptr;
    };
    f.rename = [](tenon_span from, tenon_span to) -> tenon_status* {
      CrashDisk& disk = *Current();
      const std::string source(testing::View(from)), target(testing::View(to));
      if (tenon_status* bad = disk.Fails(source)) return bad;
      const auto found = disk.now_.find(source);
      if (found == disk.now_.end()) return testing::NewStatus(TENON_NOT_FOUND, "rename " + source + ": no such file");
      disk.Do({{{target, found->second}, {source, nullptr}}});
      return nullptr;
    };
    f.remove = [](tenon_span path) -> tenon_status* {
      CrashDisk& disk = *Current();
      const std::string name(testing::View(path));
      if (tenon_status* bad = disk.Fails(name)) return bad;
      if (!disk.now_.contains(name)) return testing::NewStatus(TENON_NOT_FOUND, "remove " + name + ": no such file");
      for (const auto& [other, node] : disk.now_) {
        if (FolderOf(other) == name)
          return testing::NewStatus(TENON_FAILED_PRECONDITION, "remove " + name + ": it is not empty");
      }
      disk.Do({{{name, nullptr}}});
      return nullptr;
    };
    f.make_directory = [](tenon_span path) -> tenon_status* {
      CrashDisk& disk = *Current();
      const std::string name(testing::View(path));
      if (tenon_status* bad = disk.Fails(name)) return bad;
      if (!disk.now_.contains(name)) disk.Do({{{name, std::make_shared<Node>(Node{{true, ""}, ""})}}});
      return nullptr;
    };
    f.sync_directory = [](tenon_span path) -> tenon_status* {
      if (tenon_status* bad = Current()->Fails(testing::String((path)))) return bad;
      Current()->SyncFolder(testing::String((path)));
      return nullptr;
    };
    f.exists = [](tenon_span path) -> uint32_t { return Current()->now_.contains(testing::String((path))) ? 1 : 0; };
    return f;
  }

  Names now_, durable_;
  std::vector<Change> waiting_;
};

}  // namespace tenon::fakes
#endif  // TENON_TESTS_FAKES_CRASH_DISK_H_
