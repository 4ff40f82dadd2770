// SPDX-License-Identifier: Apache-2.0
#include "plugins/trust.h"

#include <unistd.h>

#include <filesystem>

namespace tenon::plugins {
namespace {

constexpr uid_t kRoot = 0;

}  // namespace

std::string Parent(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos || slash == 0 ? "/" : path.substr(0, slash);
}

Trust::Trust() : Trust(geteuid()) {}

std::string Trust::Wrong(const struct stat& info) const {
  if (info.st_uid != kRoot && info.st_uid != user_)
    return StrCat("user ", info.st_uid, " owns it, who is neither this one (", user_, ") nor root");
  const bool is_folder = S_ISDIR(info.st_mode);
  if (S_ISLNK(info.st_mode) || (is_folder && (info.st_mode & S_ISVTX) != 0)) return {};
  if ((info.st_mode & S_IWOTH) != 0) return "everybody may write it";
  const bool own_group = info.st_gid == kRoot || info.st_gid == user_;
  if ((info.st_mode & S_IWGRP) != 0 && !own_group) return StrCat("the group ", info.st_gid, " may write it");
  return {};
}

std::optional<Trust::Fault> Trust::FindFault(const std::string& path) {
  const auto known = folders_.find(path);
  if (known != folders_.end()) return known->second;
  std::optional<Fault> fault;
  struct stat info;
  if (lstat(path.c_str(), &info) == 0)
    if (const std::string wrong = Wrong(info); !wrong.empty()) fault = Fault{path, wrong};
  if (!fault && path != "/") fault = FindFault(Parent(path));
  return folders_[path] = fault;
}

bool Trust::Refuse(const std::string& path, const Fault& fault, LoadReport* out_report) const {
  const std::string what = fault.path == path ? "it" : StrCat("'", fault.path, "', through which it is found,");
  *out_report =
      Reject(path, Reason::kNotTrusted, StrCat(what, " is no place to load a library from: ", fault.what),
             StrCat("let its owner be this user or root, and take others' right to write (chmod go-w ", fault.path,
                    "); or set the engine's option tenon.untrusted_plugins=load, and whoever can write there runs code "
                    "as this user"));
  return false;
}

bool Trust::Check(const std::string& path, LoadReport* out_report) {
  if (const auto fault = FindFault(path)) return Refuse(path, *fault, out_report);
  std::error_code failed;
  const std::string real = std::filesystem::canonical(path, failed).string();
  if (failed || real == path) return true;
  const auto fault = FindFault(real);
  return !fault || Refuse(path, *fault, out_report);
}

}  // namespace tenon::plugins
