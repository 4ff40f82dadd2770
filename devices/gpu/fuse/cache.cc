// SPDX-License-Identifier: Apache-2.0
#include "fuse/cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tenon/bytes/crc32c.h"
#include "tenon/sdk/span.h"

namespace tenon::gpu {
namespace {

constexpr char kMagic[8] = {'t', 'n', 'g', 'p', 'u', '0', '0', '1'};

struct Head {
  char magic[8];
  uint64_t text_bytes, code_bytes;
  uint64_t check;  // crc32c of text and code
};

uint64_t Fnv(std::string_view text, uint64_t hash) {
  for (unsigned char c : text) hash = (hash ^ c) * UINT64_C(1099511628211);
  return hash;
}

uint64_t CheckOf(std::string_view text, const std::vector<char>& code) {
  return static_cast<uint64_t>(sdk::Crc32c(text)) << 32 | sdk::Crc32c({code.data(), code.size()});
}

// What keeps a folder from being this user's alone; empty: nothing, or there is none yet.
std::string WhyNotPrivate(const std::string& folder) {
  struct stat info;
  if (lstat(folder.c_str(), &info) != 0) return errno == ENOENT || errno == ENOTDIR ? "" : std::strerror(errno);
  if (!S_ISDIR(info.st_mode)) return "it is no folder";
  if (info.st_uid != geteuid()) return sdk::Concat("user ", info.st_uid, " owns it, and this is ", geteuid());
  return (info.st_mode & (S_IWGRP | S_IWOTH)) == 0 ? "" : "others may write it";
}

}  // namespace

std::string CodeCache::FolderOf(const std::string& option) {
  if (option == "off") return "";
  if (option != "auto") return option;
  if (const char* folder = std::getenv("XDG_CACHE_HOME"); folder != nullptr && folder[0] == '/')
    return sdk::Concat(folder, "/tenon/gpu");
  if (const char* home = std::getenv("HOME"); home != nullptr && home[0] == '/')
    return sdk::Concat(home, "/.cache/tenon/gpu");
  return "";
}

CodeCache::CodeCache(std::string folder) : folder_(std::move(folder)) {
  const std::string wrong = folder_.empty() ? "" : WhyNotPrivate(folder_);
  if (wrong.empty()) return;
  static std::atomic<bool> told{false};
  const std::string text =
      sdk::Concat("compiled GPU code is not kept in '", folder_, "': ", wrong,
                  "; let it be this user's, with mode 0700, or name another folder (option cache)");
  if (!told.exchange(true)) tenon_plugin_host->log(TENON_LOG_WARNING, sdk::ToSpan(text));
  folder_.clear();
}

std::string CodeCache::PathOf(std::string_view text) const {
  char name[40];
  std::snprintf(name, sizeof name, "%016llx%016llx.bin",
                static_cast<unsigned long long>(Fnv(text, UINT64_C(14695981039346656037))),
                static_cast<unsigned long long>(Fnv(text, UINT64_C(0x9E3779B97F4A7C15))));
  return folder_ + "/" + name;
}

std::optional<std::vector<char>> CodeCache::Find(std::string_view text) const {
  if (folder_.empty()) return std::nullopt;
  std::ifstream file(PathOf(text), std::ios::binary);
  Head head = {};
  if (!file.read(reinterpret_cast<char*>(&head), sizeof head) || std::memcmp(head.magic, kMagic, sizeof kMagic) != 0)
    return std::nullopt;
  if (head.text_bytes != text.size()) return std::nullopt;
  const std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (all.size() != head.text_bytes + head.code_bytes || std::string_view(all).substr(0, text.size()) != text)
    return std::nullopt;
  std::vector<char> code(all.begin() + static_cast<std::ptrdiff_t>(text.size()), all.end());
  if (CheckOf(text, code) != head.check) return std::nullopt;
  return code;
}

void CodeCache::Keep(std::string_view text, const std::vector<char>& code) const {
  if (folder_.empty()) return;
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(folder_).parent_path(), failed);
  // It may have come into being since it was looked at.
  if (mkdir(folder_.c_str(), 0700) != 0 && !WhyNotPrivate(folder_).empty()) return;
  const std::string path = PathOf(text), temporary = sdk::Concat(path, ".", getpid());
  {
    std::ofstream file(temporary, std::ios::binary);
    Head head = {{}, text.size(), code.size(), CheckOf(text, code)};
    std::memcpy(head.magic, kMagic, sizeof kMagic);
    file.write(reinterpret_cast<const char*>(&head), sizeof head);
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
    file.write(code.data(), static_cast<std::streamsize>(code.size()));
    if (!file.flush()) {
      file.close();
      std::filesystem::remove(temporary, failed);
      return;
    }
  }
  std::filesystem::rename(temporary, path, failed);
  if (failed) std::filesystem::remove(temporary, failed);
}

}  // namespace tenon::gpu
