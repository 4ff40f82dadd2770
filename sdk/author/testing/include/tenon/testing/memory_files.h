// SPDX-License-Identifier: Apache-2.0
// Files in memory, for kernels that ask the host for files (tenon/ext/files.h): they fail when they are told to, and
// tell what was called.
//
//   MemoryFiles disk;
//   UseFiles use(&disk);        // until its scope ends
//   disk.fail_at = 3;           // the third change of something fails
//
// One thread at a time.
#ifndef TENON_TESTING_MEMORY_FILES_H_
#define TENON_TESTING_MEMORY_FILES_H_

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "tenon/ext/files.h"
#include "tenon/testing/host.h"

namespace tenon::testing {

struct MemoryFiles {
  std::map<std::string, std::string, std::less<>> files = {};
  std::set<std::string, std::less<>> folders = {};
  // Counts what changes something. Operation number fail_at fails (1 is the first), and all later ones if crash.
  int operations = 0;
  int fail_at = 0;
  bool crash = false;
  // Asked before every call: a code other than TENON_OK fails it.
  std::function<uint32_t(std::string_view operation, std::string_view path)> on_call = nullptr;
  int calls = 0;                                    // of whatever kind
  std::set<std::string, std::less<>> writing = {};  // opened for writing, and not closed: nobody else opens them so

  // Those that kernels get; nullptr: none.
  static MemoryFiles*& Current() {
    static MemoryFiles* current = nullptr;
    return current;
  }
  tenon_status* Asked(std::string_view operation, std::string_view path) {
    ++calls;
    const uint32_t code = on_call ? on_call(operation, path) : TENON_OK;
    return code == TENON_OK
               ? nullptr
               : NewStatus(code, std::string(operation) + " " + std::string(path) + ": refused by the test");
  }
  // Whether this change is to fail.
  bool Fails() {
    ++operations;
    return fail_at > 0 && (operations == fail_at || (crash && operations > fail_at));
  }
  static const tenon_files* Table();
};

namespace internal {

struct OpenFile {
  std::string path;
  bool writes = false;
};
inline OpenFile& FileOf(tenon_file* file) { return *reinterpret_cast<OpenFile*>(file); }
inline tenon_file* NewFile(std::string_view path, bool writes = false) {
  return reinterpret_cast<tenon_file*>(new OpenFile{std::string(path), writes});
}

inline tenon_status* NoSpace(std::string_view what, std::string_view path) {
  return NewStatus(TENON_RESOURCE_EXHAUSTED, std::string(what) + " " + std::string(path) + ": no space left");
}
inline tenon_status* NoFile(std::string_view what, std::string_view path) {
  return NewStatus(TENON_NOT_FOUND, std::string(what) + " " + std::string(path) + ": no such file");
}

inline tenon_status* OpenRead(tenon_span path, tenon_file** out) {
  MemoryFiles& disk = *MemoryFiles::Current();
  if (tenon_status* bad = disk.Asked("open_read", View(path))) return bad;
  if (!disk.files.contains(View(path))) return NoFile("open", View(path));
  *out = NewFile(View(path));
  return nullptr;
}
inline tenon_status* OpenWrite(tenon_span path, tenon_file** out) {
  MemoryFiles& disk = *MemoryFiles::Current();
  if (tenon_status* bad = disk.Asked("open_write", View(path))) return bad;
  if (disk.Fails()) return NoSpace("open", View(path));
  if (!disk.writing.emplace(View(path)).second) return NewStatus(TENON_ABORTED, "somebody writes " + String(path));
  disk.files[String(path)].clear();
  *out = NewFile(View(path), true);
  return nullptr;
}
inline tenon_status* OpenAppend(tenon_span path, tenon_file** out) {
  MemoryFiles& disk = *MemoryFiles::Current();
  if (tenon_status* bad = disk.Asked("open_append", View(path))) return bad;
  if (disk.Fails()) return NoSpace("open", View(path));
  disk.files.try_emplace(String(path));
  *out = NewFile(View(path));
  return nullptr;
}
inline tenon_status* ReadAt(tenon_file* file, uint64_t offset, void* target, uint64_t bytes) {
  MemoryFiles& disk = *MemoryFiles::Current();
  const std::string& path = FileOf(file).path;
  if (tenon_status* bad = disk.Asked("read_at", path)) return bad;
  const std::string& text = disk.files[path];
  if (offset > text.size() || bytes > text.size() - offset) return NewStatus(TENON_OUT_OF_RANGE, path + " is shorter");
  std::memcpy(target, text.data() + offset, bytes);
  return nullptr;
}
inline tenon_status* Write(tenon_file* file, const void* source, uint64_t bytes) {
  MemoryFiles& disk = *MemoryFiles::Current();
  const std::string& path = FileOf(file).path;
  if (tenon_status* bad = disk.Asked("write", path)) return bad;
  const bool fails = disk.Fails();
  // A failing write leaves a part of its bytes.
  disk.files[path].append(static_cast<const char*>(source), fails ? bytes / 2 : bytes);
  return fails ? NoSpace("write", path) : nullptr;
}
inline tenon_status* Close(tenon_file* file) {
  const OpenFile& open = FileOf(file);
  if (open.writes && MemoryFiles::Current() != nullptr) MemoryFiles::Current()->writing.erase(open.path);
  delete &open;
  return nullptr;
}
inline tenon_status* Rename(tenon_span from, tenon_span to) {
  MemoryFiles& disk = *MemoryFiles::Current();
  if (tenon_status* bad = disk.Asked("rename", View(from))) return bad;
  if (disk.Fails()) return NoSpace("rename", View(from));
  auto node = disk.files.extract(String(from));
  if (node.empty()) return NoFile("rename", View(from));
  disk.files[String(to)] = std::move(node.mapped());
  return nullptr;
}
// What stands right in a folder, which is one when something does.
inline tenon_status* List(tenon_span path, tenon_file_names names, void* argument) {
  MemoryFiles& disk = *MemoryFiles::Current();
  if (tenon_status* bad = disk.Asked("list", View(path))) return bad;
  const std::string folder = String(path).ends_with('/') ? String(path) : String(path) + "/";
  std::set<std::string> found;
  const auto look = [&](const std::string& each) {
    if (each.size() > folder.size() && each.starts_with(folder))
      found.insert(each.substr(folder.size(), each.find('/', folder.size()) - folder.size()));
  };
  for (const auto& [name, text] : disk.files) look(name);
  for (const std::string& name : disk.folders) look(name);
  if (found.empty() && !disk.folders.contains(View(path))) return NoFile("list", View(path));
  for (const std::string& name : found) names(argument, Span(name));
  return nullptr;
}
inline tenon_status* Remove(tenon_span path) {
  MemoryFiles& disk = *MemoryFiles::Current();
  if (tenon_status* bad = disk.Asked("remove", View(path))) return bad;
  if (disk.Fails()) return NoSpace("remove", View(path));
  return disk.files.erase(String(path)) + disk.folders.erase(String(path)) > 0 ? nullptr : NoFile("remove", View(path));
}

}  // namespace internal

inline const tenon_files* MemoryFiles::Table() {
  static const tenon_files table = [] {
    tenon_files f = {};
    f.struct_size = sizeof f;
    f.open_read = internal::OpenRead;
    f.open_write = internal::OpenWrite;
    f.open_append = internal::OpenAppend;
    f.size = [](tenon_file* file, uint64_t* out) -> tenon_status* {
      *out = Current()->files[internal::FileOf(file).path].size();
      return nullptr;
    };
    f.read_at = internal::ReadAt;
    f.write = internal::Write;
    f.sync = [](tenon_file* file) -> tenon_status* {
      return Current()->Fails() ? internal::NoSpace("sync", internal::FileOf(file).path) : nullptr;
    };
    f.close = internal::Close;
    f.rename = internal::Rename;
    f.remove = internal::Remove;
    f.make_directory = [](tenon_span path) -> tenon_status* {
      if (Current()->Fails()) return internal::NoSpace("make", View(path));
      Current()->folders.insert(String(path));
      return nullptr;
    };
    f.sync_directory = [](tenon_span path) -> tenon_status* {
      return Current()->Fails() ? internal::NoSpace("sync", View(path)) : nullptr;
    };
    f.exists = [](tenon_span path) -> uint32_t {
      ++Current()->calls;
      return Current()->files.contains(View(path)) || Current()->folders.contains(View(path)) ? 1 : 0;
    };
    f.list = internal::List;
    return f;
  }();
  return &table;
}

// While it lives, kernels get these files.
class UseFiles {
 public:
  explicit UseFiles(MemoryFiles* files) {
    MemoryFiles::Current() = files;
    Offer(TENON_EXTENSION_FILES, MemoryFiles::Table());
  }
  ~UseFiles() {
    Offer(TENON_EXTENSION_FILES, nullptr);
    MemoryFiles::Current() = nullptr;
  }
  UseFiles(const UseFiles&) = delete;
  UseFiles& operator=(const UseFiles&) = delete;
};

}  // namespace tenon::testing

#endif  // TENON_TESTING_MEMORY_FILES_H_
