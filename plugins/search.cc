// SPDX-License-Identifier: Apache-2.0
#include "plugins/search.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "plugins/elf.h"
#include "plugins/trust.h"

namespace tenon::plugins {
namespace {

constexpr char kFolder[] = "tenon/plugins";
constexpr char kEnding[] = ".so";

std::optional<std::string> RealPath(const std::string& path) {
  const std::unique_ptr<char, decltype(&free)> real(realpath(path.c_str(), nullptr), &free);
  if (real == nullptr) return std::nullopt;
  return std::string(real.get());
}

bool IsFolder(const std::string& path) {
  struct stat state;
  return stat(path.c_str(), &state) == 0 && S_ISDIR(state.st_mode);
}

// Names in a folder that end in ".so", sorted; nullopt with errno when it cannot be listed.
std::optional<std::vector<std::string>> Libraries(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(folder.c_str()), &closedir);
  if (open == nullptr) return std::nullopt;
  std::vector<std::string> names;
  while (const dirent* entry = readdir(open.get())) {
    const std::string_view name = entry->d_name;
    if (name.size() > std::strlen(kEnding) && name.ends_with(kEnding) && name[0] != '.') names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Collects files and remembers what was seen.
class Collector {
 public:
  void AddFile(const std::string& path, bool named) {
    struct stat state;
    if (stat(path.c_str(), &state) != 0) {
      result_.reports.push_back(Reject(path, Reason::kNotFound, StrCat("it cannot be opened: ", std::strerror(errno)),
                                       "check the path, or the target of the link"));
      return;
    }
    const FileIdentity identity{state.st_dev, state.st_ino};
    if (!files_.insert(identity).second) {
      LoadReport report = Reject(path, Reason::kSameFile, "it is another name of a library that was found before",
                                 "nothing to do; remove one of the two names");
      report.outcome = Outcome::kNotChosen;
      result_.reports.push_back(std::move(report));
      return;
    }
    result_.candidates.push_back({path, rank_, named});
  }

  // A folder that is not there is an error only where somebody asked for it.
  void AddFolder(const std::string& folder, bool asked_for) {
    struct stat state;
    if (stat(folder.c_str(), &state) != 0) {
      if (asked_for) ReportFolder(folder);
      return;
    }
    if (!folders_.insert({state.st_dev, state.st_ino}).second) return;
    const std::optional<std::string> real = RealPath(folder);
    const std::optional<std::vector<std::string>> names = real ? Libraries(*real) : std::nullopt;
    if (!names) return ReportFolder(folder);
    for (const std::string& name : *names) AddFile(*real + "/" + name, false);
    ++rank_;
  }

  void AddReport(LoadReport report) { result_.reports.push_back(std::move(report)); }
  void NextRank() { ++rank_; }
  SearchResult Take() { return std::move(result_); }

 private:
  void ReportFolder(const std::string& folder) {
    const Reason reason = errno == ENOENT || errno == ENOTDIR ? Reason::kNotFound : Reason::kUnreadable;
    result_.reports.push_back(Reject(folder, reason, StrCat("the folder cannot be listed: ", std::strerror(errno)),
                                     "correct the path, or make the folder readable"));
  }

  SearchResult result_;
  std::set<FileIdentity> files_;
  std::set<FileIdentity> folders_;
  int rank_ = 0;
};

// What TENON_PLUGIN_PATH says, or what a caller gives like it.
void AddPath(const std::string& value, const std::string& giver, Collector* collector) {
  size_t begin = 0;
  while (begin <= value.size() && !value.empty()) {
    const size_t end = std::min(value.find(':', begin), value.size());
    const std::string folder = value.substr(begin, end - begin);
    begin = end + 1;
    if (folder.empty()) continue;
    if (folder[0] != '/') {
      collector->AddReport(Reject(folder, Reason::kRelativeFolder,
                                  StrCat(giver, " names a folder that is not absolute"),
                                  "begin it with a slash; the current folder is never searched"));
      continue;
    }
    if (folder.ends_with(kEnding) && !IsFolder(folder)) {
      collector->AddFile(folder, false);
      collector->NextRank();
    } else {
      collector->AddFolder(folder, true);
    }
  }
}

// The file whose mapping holds the address, as the kernel knows it; empty where it does not say.
std::string MappedFile(const void* address) {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    int at = 0;  // of the path, behind protection, offset, device and inode
    if (sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %*s %*s %*s %*s %n", &begin, &end, &at) == 2 && at != 0 &&
        begin <= wanted && wanted < end)
      return line.substr(static_cast<size_t>(at));
  }
  return {};
}

}  // namespace

std::string PathFromEnvironment() {
  const char* value = secure_getenv(kPathVariable);
  return value == nullptr ? std::string() : std::string(value);
}

std::vector<std::string> FoldersBeside(const void* anchor) {
  Dl_info info;
  void* extra = nullptr;
  if (anchor == nullptr || dladdr1(anchor, &info, &extra, RTLD_DL_LINKMAP) == 0) return {};
  const auto* object = static_cast<const link_map*>(extra);
  // The name of the main program is what its caller chose to write; the system knows where it stands.
  const bool program = object == nullptr || object->l_name == nullptr || object->l_name[0] == '\0';
  std::string name = program ? "/proc/self/exe" : object->l_name;
  if (name[0] != '/') name = MappedFile(anchor);  // relative to a current folder that may have changed since
  const std::optional<std::string> real = RealPath(name);
  if (!real) return {};
  const std::string folder = Parent(*real);
  return {folder + "/" + kFolder, Parent(folder) + "/lib/" + kFolder};
}

bool ResolveNamed(const std::string& path, std::string* out_absolute, LoadReport* out_report) {
  if (path.find('/') == std::string::npos || path.find('\0') != std::string::npos) {
    *out_report = Reject(path, Reason::kBarePath, "a plugin is named by its path, with a slash; it is not searched for",
                         StrCat("write an absolute path, or ./", path, " for a file in the current folder"));
    return false;
  }
  const std::optional<std::string> real = RealPath(path);
  if (!real) {
    const Reason reason = errno == ENOENT || errno == ENOTDIR ? Reason::kNotFound : Reason::kUnreadable;
    *out_report = Reject(path, reason, StrCat("it cannot be opened: ", std::strerror(errno)),
                         "check the path and its permissions");
    return false;
  }
  *out_absolute = *real;
  return true;
}

SearchResult Search(const SearchOptions& options) {
  Collector collector;
  for (const std::string& path : options.paths) {
    std::string absolute;
    LoadReport report;
    if (!ResolveNamed(path, &absolute, &report)) {
      collector.AddReport(std::move(report));
    } else if (IsFolder(absolute)) {
      collector.AddFolder(absolute, true);
    } else {
      collector.AddFile(absolute, true);
      collector.NextRank();
    }
  }
  if (options.explicit_only) return collector.Take();
  AddPath(PathFromEnvironment(), kPathVariable, &collector);
  AddPath(options.more, "the option 'tenon.plugin_path'", &collector);
  for (const std::string& folder : FoldersBeside(options.anchor)) collector.AddFolder(folder, false);
  if (!options.system_folder.empty()) collector.AddFolder(options.system_folder, false);
  return collector.Take();
}

}  // namespace tenon::plugins
