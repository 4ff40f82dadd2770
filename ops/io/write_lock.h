// SPDX-License-Identifier: Apache-2.0
// Only one at a time writes a checkpoint.
//
// The lock is the file <prefix>.lock, open for writing: the operating system's files, and those of memory://, give one
// file to one writer at a time, and take it back when the writer's process is gone, however it went. The file says who
// that is; one that nobody has open means nothing. A file system that does not tell its writers apart does not protect
// a checkpoint from two of them.
#ifndef TENON_OPS_IO_WRITE_LOCK_H_
#define TENON_OPS_IO_WRITE_LOCK_H_

#include <optional>
#include <string>
#include <string_view>

#include "tenon/sdk/file/file.h"

namespace tenon::ops::io {

class WriteLock {
 public:
  // The folder is there. ABORTED names the checkpoint and who writes it.
  WriteLock(const tenon_files& files, std::string_view prefix);
  ~WriteLock();
  WriteLock(const WriteLock&) = delete;
  WriteLock& operator=(const WriteLock&) = delete;
  // Gives it back, and says if that failed.
  void Release();

 private:
  const tenon_files& files_;
  const std::string path_;
  std::optional<sdk::File> file_;
};

}  // namespace tenon::ops::io
#endif  // TENON_OPS_IO_WRITE_LOCK_H_
