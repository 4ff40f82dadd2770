// SPDX-License-Identifier: Apache-2.0
// Trust: who may have written a library, or may put another in its place.
//
// A library runs with all rights of the process, so it is taken from nobody but this user and root: the file, the
// folder it stands in, and those above, must be owned by one of the two and be writable by nobody else. A group of its
// own, which has this user's number or root's, is no other; in a folder with the sticky bit (/tmp) others can make new
// files, but not touch those that are there.
#ifndef TENON_PLUGINS_TRUST_H_
#define TENON_PLUGINS_TRUST_H_

#include <sys/stat.h>

#include <map>
#include <optional>
#include <string>

#include "plugins/report.h"

namespace tenon::plugins {

// The folder that an absolute path stands in.
std::string Parent(const std::string& path);

// Of one user; remembers what it has found of folders, so it is made anew for each search.
class Trust {
 public:
  // The process's effective user.
  Trust();
  explicit Trust(uid_t user) : user_(user) {}

  // The file and all above it, by an absolute path; of a link also where it leads. False: *out_report says what is
  // wrong, with which of them, and what would help. What is not there is no matter of trust.
  bool Check(const std::string& path, LoadReport* out_report);
  // What is wrong with one of them, by its owner and mode; empty: nothing.
  std::string Wrong(const struct stat& info) const;

 private:
  // The first folder, from `path` upwards, with which something is wrong.
  struct Fault {
    std::string path, what;
  };
  std::optional<Fault> FindFault(const std::string& path);
  bool Refuse(const std::string& path, const Fault& fault, LoadReport* out_report) const;

  const uid_t user_;
  std::map<std::string, std::optional<Fault>> folders_;
};

}  // namespace tenon::plugins

#endif  // TENON_PLUGINS_TRUST_H_
