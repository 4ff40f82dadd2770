// SPDX-License-Identifier: Apache-2.0
// FileGrants: which files the ops of this process may touch, where that is not all.
//
// A grant is a folder (with all below it), a file, or what begins with "NAME://"; ":ro" behind it: to read alone. The
// table of files belongs to the process, and so do the grants: as soon as one runtime restricts, all that stands in a
// grant of any is open, and nothing else.
//
// Rules. Any thread. A grant's folder is what its path meant when it was given: links on the way to it were followed
// then, and are not followed again. Of several grants the one that says most about a path counts.
#ifndef TENON_CORE_FILES_FILE_GRANTS_H_
#define TENON_CORE_FILES_FILE_GRANTS_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace tenon::files {

struct FileGrant {
  std::string root;   // absolute, without links; of a scheme "NAME://..."
  std::string given;  // absolute, as it was written
  bool read_only = false;

  // "PATH", "PATH:ro", "NAME://...", "NAME://...:ro".
  static Result<FileGrant> Parse(std::string_view text);
};

// A path that may be touched: `rest`, relative and without "..", below the folder `root`; empty: the root itself.
struct GrantedPath {
  std::string root;
  std::string rest;
};

class FileGrants {
 public:
  // What is granted now; nullptr: everything.
  static std::shared_ptr<const FileGrants> Current();
  // owner: the runtime; task: for errors. An empty list grants nothing.
  static void Restrict(const void* owner, std::string_view task, std::vector<FileGrant> grants);
  static void Lift(const void* owner);

  // PERMISSION_DENIED names the path, the task and what would grant it. write: not to be read alone.
  Result<GrantedPath> Find(std::string_view path, bool write) const;
  // The same for one that is renamed or removed: no grant stands at it or below it.
  Result<GrantedPath> FindMovable(std::string_view path) const;
  // Whether the folder is above one that was granted, which whoever reaches that one may know to be there.
  bool IsAbove(std::string_view path) const;
  // Whether a link below the folder of a grant may lead to where one may only read.
  bool HasReadOnlyBelow(const std::string& root) const;
  Status Refuse(std::string_view path, bool write, std::string_view why) const;

 private:
  struct Owners;
  static Owners& TheOwners();
  static std::shared_ptr<const FileGrants> Together(const std::map<const void*, FileGrants>& each);

  std::string task_;
  std::vector<FileGrant> grants_;
};

}  // namespace tenon::files

#endif  // TENON_CORE_FILES_FILE_GRANTS_H_
