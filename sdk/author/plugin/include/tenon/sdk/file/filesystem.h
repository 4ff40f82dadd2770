// SPDX-License-Identifier: Apache-2.0
// A file system's table (tenon/ext/draft/filesystem.h) from a small class of its own.
//
//   struct Tree {
//     static constexpr tenon_span kScheme = TENON_SPAN("memory");
//     static Tree& Of(tenon_plugin_self* self);
//     class File {
//       tenon_status *Size(uint64_t*), *ReadAt(offset, target, bytes), *Write(source, bytes), *Sync(), *Close();
//     };
//     tenon_status* Open(std::string_view path, sdk::OpenMode mode, std::unique_ptr<File>* out_file);
//     tenon_status *Rename(from, to), *Remove(path), *MakeDirectory(path), *SyncDirectory(path),
//                  *List(path, out_names);
//     bool Exists(path);
//   };
//   const tenon_capability kCapabilities[] = {TENON_PROVIDES(FILESYSTEM, &tenon::sdk::kFilesystemTable<Tree>)};
//
// Paths come whole, with their scheme; PathInside takes them apart. What is thrown becomes a status. A File is
// destroyed after its Close, which is called once.
//
// Open(kWrite) of a file that somebody else writes should be ABORTED and change nothing, and a writer that is gone
// should not count: then two writers of one checkpoint do not harm each other. A file system that cannot tell opens it.
#ifndef TENON_SDK_FILE_FILESYSTEM_H_
#define TENON_SDK_FILE_FILESYSTEM_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/ext/draft/filesystem.h"
#include "tenon/sdk/span.h"

namespace tenon::sdk {

enum class OpenMode { kRead, kWrite, kAppend };

// "a/c" for "memory://a/./b/../c", "" for the root. ".." does not lead above the root.
inline std::string PathInside(std::string_view path) {
  const size_t scheme = path.find("://");
  std::string_view rest = scheme == std::string_view::npos ? path : path.substr(scheme + 3);
  std::vector<std::string_view> parts;
  while (!rest.empty()) {
    const size_t slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    rest = slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1);
    if (part == "..") {
      if (!parts.empty()) parts.pop_back();
    } else if (!part.empty() && part != ".") {
      parts.push_back(part);
    }
  }
  std::string inside;
  for (std::string_view part : parts) inside.append(inside.empty() ? "" : "/").append(part);
  return inside;
}

template <class System>
struct FilesystemFunctions {
  using File = typename System::File;
  static File* Of(tenon_file* file) { return reinterpret_cast<File*>(file); }

  template <OpenMode mode>
  static tenon_status* Open(tenon_plugin_self* self, tenon_span path, tenon_file** out_file) {
    return Guard([&]() -> tenon_status* {
      std::unique_ptr<File> file;
      TENON_SDK_RETURN_IF_ERROR(System::Of(self).Open(ToText(path), mode, &file));
      *out_file = reinterpret_cast<tenon_file*>(file.release());
      return nullptr;
    });
  }
  static tenon_status* Size(tenon_file* file, uint64_t* out_size) {
    return Guard([&] { return Of(file)->Size(out_size); });
  }
  static tenon_status* ReadAt(tenon_file* file, uint64_t offset, void* target, uint64_t bytes) {
    return Guard([&] { return Of(file)->ReadAt(offset, target, bytes); });
  }
  static tenon_status* Write(tenon_file* file, const void* source, uint64_t bytes) {
    return Guard([&] { return Of(file)->Write(source, bytes); });
  }
  static tenon_status* Sync(tenon_file* file) {
    return Guard([&] { return Of(file)->Sync(); });
  }
  static tenon_status* Close(tenon_file* file) {
    const std::unique_ptr<File> last(Of(file));
    return Guard([&] { return last->Close(); });
  }
  static tenon_status* Rename(tenon_plugin_self* self, tenon_span from, tenon_span to) {
    return Guard([&] { return System::Of(self).Rename(ToText(from), ToText(to)); });
  }
  static tenon_status* Remove(tenon_plugin_self* self, tenon_span path) {
    return Guard([&] { return System::Of(self).Remove(ToText(path)); });
  }
  static tenon_status* MakeDirectory(tenon_plugin_self* self, tenon_span path) {
    return Guard([&] { return System::Of(self).MakeDirectory(ToText(path)); });
  }
  static tenon_status* SyncDirectory(tenon_plugin_self* self, tenon_span path) {
    return Guard([&] { return System::Of(self).SyncDirectory(ToText(path)); });
  }
  static uint32_t Exists(tenon_plugin_self* self, tenon_span path) {
    uint32_t found = 0;
    tenon_status* bad = Guard([&]() -> tenon_status* {
      found = System::Of(self).Exists(ToText(path)) ? 1 : 0;
      return nullptr;
    });
    if (bad != nullptr) tenon_plugin_host->status_release(bad);
    return found;
  }
  static tenon_status* List(tenon_plugin_self* self, tenon_span path, tenon_file_names names, void* argument) {
    return Guard([&]() -> tenon_status* {
      std::vector<std::string> found;
      TENON_SDK_RETURN_IF_ERROR(System::Of(self).List(ToText(path), &found));
      for (const std::string& name : found) names(argument, ToSpan(name));
      return nullptr;
    });
  }
};

template <class System>
inline constexpr tenon_filesystem kFilesystemTable = {
    TENON_HEAD(tenon_filesystem),
    System::kScheme,
    FilesystemFunctions<System>::template Open<OpenMode::kRead>,
    FilesystemFunctions<System>::template Open<OpenMode::kWrite>,
    FilesystemFunctions<System>::template Open<OpenMode::kAppend>,
    FilesystemFunctions<System>::Size,
    FilesystemFunctions<System>::ReadAt,
    FilesystemFunctions<System>::Write,
    FilesystemFunctions<System>::Sync,
    FilesystemFunctions<System>::Close,
    FilesystemFunctions<System>::Rename,
    FilesystemFunctions<System>::Remove,
    FilesystemFunctions<System>::MakeDirectory,
    FilesystemFunctions<System>::SyncDirectory,
    FilesystemFunctions<System>::Exists,
    FilesystemFunctions<System>::List};

}  // namespace tenon::sdk

#endif  // TENON_SDK_FILE_FILESYSTEM_H_
