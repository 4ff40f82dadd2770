// SPDX-License-Identifier: Apache-2.0
// The operating system's files below a folder that was granted: opened so that neither ".." nor a link leads out of it,
// whatever changes meanwhile.
#ifndef TENON_CORE_FILES_GRANTED_FILES_H_
#define TENON_CORE_FILES_GRANTED_FILES_H_

#include <sys/types.h>

#include "core/files/file_grants.h"
#include "tenon/ext/files.h"

namespace tenon::files {

// How a path below a folder is opened.
enum class Beneath {
  kKernel,      // openat2: links that stay below are followed
  kStepByStep,  // of kernels before 5.6, or where it is not let through: each piece by itself, and no link is followed
};
// A descriptor, or -1 and errno: EXDEV or ELOOP when a link or ".." leads out.
int OpenBeneath(int folder, const char* rest, int flags, mode_t mode, Beneath how = Beneath::kKernel);

// As the functions of tenon_files, of what FileGrants found for `path`; the files are the system's. The path is for
// errors.
class GrantedFiles {
 public:
  GrantedFiles(const FileGrants& grants, std::string_view path) : grants_(grants), path_(path) {}

  tenon_status* OpenRead(tenon_file** out_file) const;
  tenon_status* OpenWrite(tenon_file** out_file) const;
  tenon_status* OpenAppend(tenon_file** out_file) const;
  tenon_status* RenameTo(std::string_view to) const;
  tenon_status* Remove() const;
  tenon_status* MakeDirectory() const;
  tenon_status* SyncDirectory() const;
  bool Exists() const;
  tenon_status* List(tenon_file_names names, void* argument) const;

 private:
  tenon_status* Open(const char* what, bool write, int flags, tenon_file** out_file) const;
  // opened: what is written, or with a name the folder that it is or will be in.
  Status CheckMayWrite(const GrantedPath& granted, int opened, std::string_view name) const;
  Result<int> OpenToWrite(const GrantedPath& granted, const char* what, int flags) const;
  tenon_status* Explain(const char* what, bool write, int error) const;

  const FileGrants& grants_;
  const std::string path_;
};

}  // namespace tenon::files

#endif  // TENON_CORE_FILES_GRANTED_FILES_H_
