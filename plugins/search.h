// SPDX-License-Identifier: Apache-2.0
// Search: which library files there are, in the order in which they count.
//
//   1. paths that the caller names: a library, or a folder of libraries; always with a slash, never a bare name
//   2. TENON_PLUGIN_PATH, absolute folders (or libraries) separated by ':'; ignored when the process runs with raised
//   privileges; then what the
//      caller gives in the same form
//   3. lib/tenon/plugins of the prefix in which the library (or the executable) of an address stands
//   4. the system's folder
//
// The current folder is never searched. A file counts once, by device and inode, under the first path that leads to it.
#ifndef TENON_PLUGINS_SEARCH_H_
#define TENON_PLUGINS_SEARCH_H_

#include <string>
#include <vector>

#include "plugins/report.h"

namespace tenon::plugins {

inline constexpr char kPathVariable[] = "TENON_PLUGIN_PATH";

struct SearchOptions {
  std::vector<std::string> paths;        // 1
  bool explicit_only = false;            // nothing but 1
  std::string more;                      // 2: after the environment's
  const void* anchor = nullptr;          // 3: an address within the library or executable; NULL: none
  std::string system_folder;             // 4: empty: none
};

struct Candidate {
  std::string path;    // absolute
  int rank = 0;        // of its folder; smaller counts first
  bool named = false;  // the caller named the file itself
};

struct SearchResult {
  std::vector<Candidate> candidates;
  std::vector<LoadReport> reports;  // paths that cannot be used
};

SearchResult Search(const SearchOptions& options);

// The plugin folders of the prefix in which the object that holds the address stands.
std::vector<std::string> FoldersBeside(const void* anchor);

// The environment's folders, or none when the process runs with raised privileges.
std::string PathFromEnvironment();

// An absolute path of a file that a caller named. False: *out_report says why not.
bool ResolveNamed(const std::string& path, std::string* out_absolute, LoadReport* out_report);

}  // namespace tenon::plugins

#endif  // TENON_PLUGINS_SEARCH_H_
