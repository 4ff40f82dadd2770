// SPDX-License-Identifier: Apache-2.0
#include "core/exec/kernel/tuning_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <compare>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::exec {
namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

struct File {
  int64_t seconds, nanoseconds;  // of when it was written
  std::string name;
  auto operator<=>(const File&) const = default;
};

// Files that are being written, or were when their process ended, count too: "HASH.tuning.XXXXXX".
bool IsName(std::string_view name) { return name.find(".tuning") == 16 && (name.size() == 23 || name.size() == 30); }

std::vector<std::string> Names(DIR* folder) {
  std::vector<std::string> names;
  while (const dirent* entry = readdir(folder))
    if (IsName(entry->d_name)) names.emplace_back(entry->d_name);
  return names;
}

std::vector<File> Dated(DIR* folder, std::vector<std::string> names) {
  std::vector<File> files;
  for (std::string& name : names) {
    struct stat info {};
    if (fstatat(dirfd(folder), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) continue;
    files.push_back({info.st_mtim.tv_sec, info.st_mtim.tv_nsec, std::move(name)});
  }
  return files;
}

}  // namespace

size_t DropOldest(const std::string& folder, size_t most) {
  const Folder open(opendir(folder.c_str()));
  if (open == nullptr) return 0;
  std::vector<std::string> names = Names(open.get());
  if (names.size() < most) return 0;
  std::vector<File> files = Dated(open.get(), std::move(names));
  std::sort(files.begin(), files.end());
  const size_t left = most - std::max<size_t>(1, most / 16);
  size_t dropped = 0;
  for (size_t i = 0; i + left < files.size(); ++i)
    dropped += unlinkat(dirfd(open.get()), files[i].name.c_str(), 0) == 0;
  return dropped;
}

}  // namespace tenon::exec
