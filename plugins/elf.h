// SPDX-License-Identifier: Apache-2.0
// Reads what the loader must know of a shared library before it opens it: a note, the libraries and names it needs,
// whether it is a plugin, its machine.
//
// The file is hostile until proved otherwise: every offset is checked against the file's size, every size against a
// bound, and only the pieces that are needed are read. Nothing is mapped, so a file that shrinks meanwhile is an error
// and not a signal.
#ifndef TENON_PLUGINS_ELF_H_
#define TENON_PLUGINS_ELF_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plugins/report.h"

namespace tenon::plugins {

// Which file a path means; two paths with one identity are one file.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  auto operator<=>(const FileIdentity&) const = default;
};

// What a file's contents were, as far as the system says it: what is written or replaced later has another.
struct FileStamp {
  FileIdentity identity;
  uint64_t size = 0;
  int64_t written_ns = 0, changed_ns = 0;
  auto operator<=>(const FileStamp&) const = default;
};
// nullopt: there is none.
std::optional<FileStamp> StampOf(const std::string& path);

struct ElfSummary {
  FileIdentity identity;
  FileStamp stamp;
  std::vector<std::string> needed;   // DT_NEEDED
  bool has_entry = false;            // whether it exports TENON_QUERY_SYMBOL
  // What it wants of others and says of no library that has it: undefined, not weak, without a version. Without names
  // of compilers' own ("__...").
  std::vector<std::string> wanted;
  std::optional<std::string> note;   // of the owner "Tenon", type 1
};

// Largest manifest, as note or file.
inline constexpr uint64_t kMaxManifestBytes = 16u << 20;

// The library's summary, or in *out_report why it is none (path, reason, text, hint).
std::optional<ElfSummary> ReadElf(const std::string& path, LoadReport* out_report);

// A whole regular file of at most kMaxManifestBytes. nullopt with *out_exists false when there is none.
std::optional<std::string> ReadSmallFile(const std::string& path, bool* out_exists, std::string* out_error);

}  // namespace tenon::plugins

#endif  // TENON_PLUGINS_ELF_H_
