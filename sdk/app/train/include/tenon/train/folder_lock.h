// SPDX-License-Identifier: Apache-2.0
// FolderLock: only one at a time saves checkpoints into a folder.
//
// It is the file `checkpoint.lock` there, open for writing, which says who has it. The file system gives one file to
// one writer at a time and takes it back when the writer's process is gone, however it went (the operating system's
// files and memory:// do); one that cannot tell its writers apart protects nothing. A file that nobody has open means
// nothing.
#ifndef TENON_TRAIN_FOLDER_LOCK_H_
#define TENON_TRAIN_FOLDER_LOCK_H_

#include <string>
#include <utility>

#include "tenon/host/files.h"
#include "tenon/train/base.h"

namespace tenon::train {

class FolderLock {
 public:
  // The folder is there. FAILED_PRECONDITION names the folder and who has it.
  static Result<FolderLock> Take(const std::string& folder);
  FolderLock(FolderLock&& other) noexcept : path_(std::exchange(other.path_, {})), file_(std::move(other.file_)) {}
  FolderLock& operator=(FolderLock&& other) noexcept;
  // Gives it back.
  ~FolderLock();

 private:
  FolderLock(std::string path, host::File file) : path_(std::move(path)), file_(std::move(file)) {}
  std::string path_;  // empty: it was moved away
  host::File file_;
};

// Removes a lock's file that a dead writer has left.
void RemoveLockIfFree(const std::string& path);

}  // namespace tenon::train

#endif  // TENON_TRAIN_FOLDER_LOCK_H_
