// SPDX-License-Identifier: Apache-2.0
// TuningCache: what kernels found out about a device while they were prepared, for those that are prepared later: in
// this process, and, where there is a folder, in others.
//
// Files are hints of strangers as soon as somebody else may write them: a folder or a file that is another user's, or
// that others may write to, is not used. A file that is not whole, or of another key, is as none. A folder does not
// grow for ever, whoever shares it: tuning_files.h.
#ifndef TENON_CORE_EXEC_KERNEL_TUNING_CACHE_H_
#define TENON_CORE_EXEC_KERNEL_TUNING_CACHE_H_

#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace tenon::exec {

// Any thread.
class TuningCache {
 public:
  static constexpr size_t kLargestKey = 4096, kLargestValue = 65536, kMostBytes = 64 << 20;
  static constexpr size_t kMostFiles = 4096;

  // most_files: that it lets a folder have; where there are as many, the oldest go.
  explicit TuningCache(size_t most_files = kMostFiles) : most_files_(most_files) {}
  // The folder is made if it is not there. FAILED_PRECONDITION: it is not this user's alone.
  Status UseFolder(std::string folder);
  // NOT_FOUND: nothing is known.
  Result<std::string> Get(const std::string& key);
  // What cannot be written to the folder is kept in memory, and logged once.
  void Put(const std::string& key, std::string_view value);

 private:
  std::string PathOf(const std::string& key) const;
  Result<std::string> Read(const std::string& key) const;
  Status Write(const std::string& key, std::string_view value) const;
  // For a file that is not there yet.
  void MakeRoomFor(const std::string& path);
  void Keep(const std::string& key, std::string value);

  std::mutex mutex_;  // guards all below
  std::string folder_;
  std::map<std::string, std::string> values_;
  std::deque<std::string> order_;  // of keys, oldest first
  size_t bytes_ = 0;
  const size_t most_files_;
  bool complained_ = false, dropped_ = false;
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_KERNEL_TUNING_CACHE_H_
